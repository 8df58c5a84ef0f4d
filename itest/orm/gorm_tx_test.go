package orm_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/lockctx"
)

var errOnPurpose = errors.New("on purpose")

func TestGormTransactions(t *testing.T) {
	eachGorm(t, func(t *testing.T, g gormCase) {
		require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
			require.NoError(t, tx.Create(&item{ID: 1}).Error)
			require.ErrorIs(t, tx.Transaction(func(tx *gorm.DB) error {
				require.NoError(t, tx.Create(&item{ID: 2}).Error)
				return errOnPurpose
			}), errOnPurpose)
			return tx.Transaction(func(tx *gorm.DB) error { return tx.Create(&item{ID: 3}).Error })
		}))
		require.True(t, g.has(t, 1))
		require.False(t, g.has(t, 2), "rolled back to the savepoint")
		require.True(t, g.has(t, 3))

		require.ErrorIs(t, g.Transaction(func(tx *gorm.DB) error {
			require.NoError(t, tx.Create(&item{ID: 4}).Error)
			return errOnPurpose
		}), errOnPurpose)
		require.False(t, g.has(t, 4))

		require.Panics(t, func() {
			_ = g.Transaction(func(tx *gorm.DB) error {
				require.NoError(t, tx.Create(&item{ID: 5}).Error)
				panic(errOnPurpose)
			})
		})
		require.False(t, g.has(t, 5))

		tx := g.Begin()
		require.NoError(t, tx.Create(&item{ID: 6}).Error)
		require.NoError(t, tx.SavePoint("point").Error)
		require.Error(t, tx.Create(&item{ID: 6}).Error, "a duplicate")
		require.NoError(t, tx.RollbackTo("point").Error)
		require.NoError(t, tx.Create(&item{ID: 7}).Error)
		require.NoError(t, tx.Commit().Error)
		require.True(t, g.has(t, 6))
		require.True(t, g.has(t, 7))
	})
}

// While a result set or a transaction is open, gorm's own *DB under the same
// lock has no second connection to go to, and must not take another one.
func TestGormIsToldWhatOccupiesTheLocksSession(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		for name, prepare := range map[string]bool{"plain": false, "prepared": true} {
			t.Run(name, func(t *testing.T) {
				c := s.connector(t, driver.WithBusyTimeout(50*time.Millisecond))
				db := openConnector(t, c)
				lk, session := s.acquire(t, db)
				s.emptyTables(t)
				g := newGorm(t, s, db, prepare).WithContext(lk.Context())
				require.NoError(t, g.Create([]item{{ID: 1}, {ID: 2}}).Error)

				rows, err := g.Model(&item{}).Rows()
				require.NoError(t, err)
				require.True(t, rows.Next())
				err = g.Create(&item{ID: 3}).Error
				require.ErrorIs(t, err, lockctx.ErrBusy)
				require.ErrorContains(t, err, "a result set")
				require.True(t, rows.Next())
				require.NoError(t, rows.Close())
				require.NoError(t, g.Create(&item{ID: 3}).Error)

				require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
					err := g.Create(&item{ID: 4}).Error // g, not tx
					require.ErrorIs(t, err, lockctx.ErrBusy)
					require.ErrorContains(t, err, "a transaction")
					return tx.Create(&item{ID: 5}).Error
				}))
				require.False(t, s.has(t, 4))
				require.True(t, s.has(t, 5))
				require.Equal(t, session, s.holder(t, lk.Key()))
				require.NoError(t, lk.Close())
			})
		}
	})
}

// The statements that gorm prepares outlive the lock under which that happened,
// and the lock's session.
func TestGormsPreparedStatementsGoWhereTheirContextSays(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		db := openConnector(t, s.connector(t, driver.WithMaxIdleSessions(0)))
		c := gormClient{gormWork{newGorm(t, s, db, true), s}, db}
		for range 5 {
			lk, session := s.acquire(t, db)
			got, err := c.session(lk.Context())
			require.NoError(t, err)
			require.Equal(t, session, got)
			got, err = c.session(testCtx(t))
			require.NoError(t, err)
			require.NotEqual(t, session, got)
			tx, err := c.begin(lk.Context())
			require.NoError(t, err)
			got, err = tx.session(lk.Context())
			require.NoError(t, err)
			require.Equal(t, session, got)
			require.NoError(t, tx.rollback())
			require.NoError(t, lk.Close())
		}
		lk, session := s.acquire(t, db)
		_, err := c.session(lk.Context())
		require.NoError(t, err)
		s.kill(t, lk, session)
		_, err = c.session(lk.Context())
		require.ErrorIs(t, err, lockctx.ErrLost)
		_, err = c.session(testCtx(t))
		require.NoError(t, err, "the loss of a lock is nobody else's")
	})
}
