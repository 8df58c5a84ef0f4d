package orm_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
)

func eachGormText(t *testing.T, fn func(t *testing.T, s server, c gormClient, l lockText)) {
	eachServer(t, func(t *testing.T, s server) {
		for name, prepare := range map[string]bool{"plain": false, "prepared": true} {
			t.Run(name, func(t *testing.T) {
				fn(t, s, openGorm(prepare)(t, s).(gormClient), s.lockText(t))
			})
		}
	})
}

func TestALockTakenByGormExecIsHeldThoughNobodySeesTheResult(t *testing.T) {
	eachGormText(t, func(t *testing.T, s server, c gormClient, l lockText) {
		inRounds(t, 20, s, c, l,
			func() (bool, error) { return true, c.g.Exec(l.take, l.arg).Error },
			func() (bool, error) { return true, c.g.Exec(l.release, l.arg).Error })
	})
}

// errUndone has gorm roll a transaction back.
var errUndone = errors.New("undone")

func TestALockLeftInAGormTransactionEndsWithIt(t *testing.T) {
	eachGormText(t, func(t *testing.T, s server, c gormClient, l lockText) {
		for _, want := range []error{nil, errUndone} {
			for _, last := range []string{l.release, "SELECT 1 = ?"} { // the other leaves the lock
				err := c.g.Transaction(func(tx *gorm.DB) error {
					var yes bool
					if err := tx.Raw(l.take, l.arg).Scan(&yes).Error; err != nil {
						return err
					}
					require.True(t, yes)
					require.False(t, s.free(t, l))
					arg := l.arg
					if last != l.release {
						arg = 1
					}
					if err := tx.Raw(last, arg).Scan(&yes).Error; err != nil {
						return err
					}
					require.True(t, yes)
					return want
				})
				require.Equal(t, want, err)
				require.True(t, s.free(t, l))
			}
		}
	})
}

func TestALockLeftOnAGormConnectionEndsWithIt(t *testing.T) {
	eachGormText(t, func(t *testing.T, s server, c gormClient, l lockText) {
		s.emptyTables(t)
		err := c.g.Connection(func(one *gorm.DB) error {
			require.NoError(t, one.Exec(l.take, l.arg).Error)
			require.False(t, s.free(t, l))
			return one.Transaction(func(tx *gorm.DB) error { return tx.Create(&item{ID: 1}).Error })
		})
		require.NoError(t, err)
		require.True(t, s.free(t, l), "it is left, and its connection is nobody's any more")
	})
}
