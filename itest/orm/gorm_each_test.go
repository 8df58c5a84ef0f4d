package orm_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/lockdb/lockdb/lockctx"
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

// gormCase is gorm on a server, for one test.
type gormCase struct {
	*gorm.DB // its statements bear the context that the case is about
	server
	ctx     context.Context
	lock    *lockctx.Lock // nil in a case without one
	session int64         // the lock's
}

// eachGorm runs fn with gorm, preparing statements and not, on every server,
// without and with a lock's context. With it, everything that fn did must have
// run on the lock's session: the server has seen no other.
func eachGorm(t *testing.T, fn func(t *testing.T, g gormCase)) {
	eachServer(t, func(t *testing.T, s server) {
		require.NoError(t, newGorm(t, s, s.outside, false).AutoMigrate(&author{}, &book{}))
		for name, prepare := range map[string]bool{"plain": false, "prepared": true} {
			t.Run(name, func(t *testing.T) {
				db := s.open(t)
				g := newGorm(t, s, db, prepare)
				t.Run("without a lock", func(t *testing.T) {
					s.emptyTables(t, "books", "authors", "item")
					ctx := testCtx(t)
					fn(t, gormCase{DB: g.WithContext(ctx), server: s, ctx: ctx})
				})
				t.Run("under a lock", func(t *testing.T) {
					s.emptyTables(t, "books", "authors", "item")
					db.SetMaxIdleConns(0) // closes those that are idle
					db.SetMaxIdleConns(10)
					lk, session := s.acquire(t, db)
					fn(t, gormCase{DB: g.WithContext(lk.Context()), server: s, ctx: lk.Context(), lock: lk, session: session})
					s.requireOnly(t, session)
					require.NoError(t, lk.Close())
				})
			})
		}
	})
}

func (s server) emptyTables(t testing.TB, tables ...string) {
	t.Helper()
	for _, table := range tables {
		_, err := s.outside.Exec("DELETE FROM " + table)
		require.NoError(t, err)
	}
}

// requireOnly checks that, the outside client apart, the database has no
// session but that one.
func (s server) requireOnly(t testing.TB, session int64) {
	t.Helper()
	var outside int64
	require.NoError(t, s.outside.QueryRow(s.selectSession()).Scan(&outside))
	var others []int64
	for _, one := range s.Sessions(t) {
		if one.ID != outside {
			others = append(others, one.ID)
		}
	}
	require.Equal(t, []int64{session}, others)
}
