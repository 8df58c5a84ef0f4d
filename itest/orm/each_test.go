package orm_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/lockctx"
)

// lockCase is the context that a test is about.
type lockCase struct {
	ctx     context.Context
	lock    *lockctx.Lock // nil in a case without one
	session int64         // the lock's
}

// eachContext runs fn without a lock's context and with one. With it,
// everything that fn did must have run on the lock's session: the server has
// seen no other.
func eachContext(t *testing.T, s server, c client, fn func(t *testing.T, lc lockCase)) {
	t.Run("without a lock", func(t *testing.T) {
		s.emptyTables(t)
		fn(t, lockCase{ctx: testCtx(t)})
	})
	t.Run("under a lock", func(t *testing.T) {
		s.emptyTables(t)
		c.db().SetMaxIdleConns(0) // closes those that are idle
		c.db().SetMaxIdleConns(10)
		lk, session := s.acquire(t, c.db())
		fn(t, lockCase{lk.Context(), lk, session})
		s.requireOnly(t, session)
		require.NoError(t, lk.Close())
	})
}

func (s server) emptyTables(t testing.TB, tables ...string) {
	t.Helper()
	for _, table := range append(tables, "item") {
		_, err := s.outside.Exec("DELETE FROM " + table)
		require.NoError(t, err)
	}
}

// requireOnly checks that, the outside client apart, the database has no
// session but that one. Those that were closed before may take a moment to end.
func (s server) requireOnly(t testing.TB, session int64) {
	t.Helper()
	var outside int64
	require.NoError(t, s.outside.QueryRow(s.selectSession()).Scan(&outside))
	require.Eventually(t, func() bool {
		var others []int64
		for _, one := range s.Sessions(t) {
			if one.ID != outside {
				others = append(others, one.ID)
			}
		}
		return slices.Equal(others, []int64{session})
	}, 20*time.Second, 10*time.Millisecond, "something ran on another session than the lock's")
}
