package lockctx_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestALockExcludesOthersUntilClose(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		lk := acquire(t, db, key)
		require.Equal(t, key, lk.Key())
		require.Equal(t, []string{key}, lk.Keys())
		require.NoError(t, lk.Err())
		require.False(t, out.try(key))
		_, err := lockctx.TryAcquire(testCtx(t), db, key)
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		_, err = lockctx.TryAcquire(testCtx(t), open(t, s), key)
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)

		require.NoError(t, lk.Close())
		require.True(t, out.try(key))
		require.ErrorIs(t, lk.Err(), lockctx.ErrReleased)
		require.ErrorIs(t, lk.Context().Err(), lockctx.ErrReleased)
		require.ErrorIs(t, context.Cause(lk.Context()), lockctx.ErrReleased)
	})
}

func TestAWaiterOfAnotherProcessIsServedAfterClose(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		key := dbtest.Key(t)
		lk := acquire(t, open(t, s), key)
		other := open(t, s)
		served := make(chan error, 1)
		go func() {
			lk, err := lockctx.Acquire(testCtx(t), other, key)
			if err == nil {
				err = lk.Close()
			}
			served <- err
		}()
		select {
		case err := <-served:
			t.Fatalf("served while the lock was held: %v", err)
		case <-time.After(300 * time.Millisecond):
		}
		require.NoError(t, lk.Close())
		require.NoError(t, <-served)
	})
}
