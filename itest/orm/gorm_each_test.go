package orm_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
)

type author struct {
	ID    int64
	Name  string `gorm:"size:100;uniqueIndex"`
	Books []book
}

type book struct {
	ID       int64
	AuthorID int64
	Title    string `gorm:"size:100"`
}

// gormCase is gorm on a server, for one test. Its statements bear the context
// that the case is about.
type gormCase struct {
	*gorm.DB
	server
	lockCase
}

// eachGorm runs fn with gorm, preparing statements and not, on every server,
// without and with a lock's context.
func eachGorm(t *testing.T, fn func(t *testing.T, g gormCase)) {
	eachServer(t, func(t *testing.T, s server) {
		require.NoError(t, newGorm(t, s, s.outside, false).AutoMigrate(&author{}, &book{}))
		for name, prepare := range map[string]bool{"plain": false, "prepared": true} {
			t.Run(name, func(t *testing.T) {
				c := openGorm(prepare)(t, s).(gormClient)
				eachContext(t, s, c, func(t *testing.T, lc lockCase) {
					s.emptyTables(t, "books", "authors")
					fn(t, gormCase{c.g.WithContext(lc.ctx), s, lc})
				})
			})
		}
	})
}
