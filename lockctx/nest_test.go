package lockctx_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestReentryUnderTheLocksContextNeedsNoServer(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		outer := acquire(t, db, key)
		inner, err := lockctx.Acquire(outer.Context(), db, key)
		require.NoError(t, err)
		require.Equal(t, sessionID(t, s, db, outer), sessionID(t, s, db, inner))
		require.NoError(t, inner.Close())
		require.ErrorIs(t, inner.Context().Err(), lockctx.ErrReleased)
		require.NoError(t, outer.Err())
		require.NoError(t, outer.Context().Err())
		require.False(t, out.try(key), "the outer lock must survive the inner one's Close")
		require.NoError(t, outer.Close())
		require.True(t, out.try(key))
	})
}

func TestAnotherKeyUnderALocksContextIsTakenOnItsSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		outer := acquire(t, db, key)
		inner, err := lockctx.Acquire(outer.Context(), db, key+":2")
		require.NoError(t, err)
		require.Equal(t, sessionID(t, s, db, outer), sessionID(t, s, db, inner))
		require.False(t, out.try(key+":2"))
		require.NoError(t, inner.Close())
		require.True(t, out.try(key+":2"))
		require.False(t, out.try(key))

		inner, err = lockctx.Acquire(outer.Context(), db, key+":2")
		require.NoError(t, err)
		require.NoError(t, outer.Close())
		require.ErrorIs(t, inner.Err(), lockctx.ErrReleased)
		require.True(t, out.try(key))
		require.True(t, out.try(key+":2"))
	})
}

func TestANestedWaitInATransactionNeitherAbortsItNorOutlivesItsContext(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		outer := acquire(t, db, key)
		defer outer.Close()
		tx, err := db.BeginTx(outer.Context(), nil)
		require.NoError(t, err)
		require.True(t, out.take(key+":2"))
		_, err = lockctx.Acquire(outer.Context(), db, key+":2", lockctx.WithTimeout(200*time.Millisecond))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		ctx, cancel := context.WithTimeout(outer.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = lockctx.Acquire(ctx, db, key+":2")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		out.release(key + ":2")
		inner, err := lockctx.Acquire(outer.Context(), db, key+":2")
		require.NoError(t, err)
		var one int
		require.NoError(t, tx.QueryRow("SELECT 1").Scan(&one))
		require.NoError(t, inner.Close())
		require.NoError(t, tx.Commit(), "the transaction is the outer lock's")
		require.NoError(t, outer.Err())
	})
}

func TestClosingANestedLockInAnAbortedTransactionKeepsTheOuterOne(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		outer := acquire(t, db, key)
		tx, err := db.BeginTx(outer.Context(), nil)
		require.NoError(t, err)
		inner, err := lockctx.Acquire(outer.Context(), db, key+":2")
		require.NoError(t, err)
		_, err = tx.Exec("SELECT no_such_column")
		require.Error(t, err)
		require.NoError(t, inner.Close())
		require.NoError(t, outer.Err())
		require.NoError(t, tx.Rollback())
		var one int
		require.NoError(t, db.QueryRowContext(outer.Context(), "SELECT 1").Scan(&one))
		require.NoError(t, outer.Close())
		require.True(t, out.try(key))
		require.True(t, out.try(key+":2"))
	})
}
