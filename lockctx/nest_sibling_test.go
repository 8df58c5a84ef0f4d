package lockctx_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// Two who are both under one lock's context, but not under each other's, share its session, which the
// server would let take a lock twice.
func TestTwoUnderOneLocksContextStillExcludeEachOther(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		outer := acquire(t, db, key)
		first, err := lockctx.Acquire(outer.Context(), db, key+":2")
		require.NoError(t, err)
		_, err = lockctx.TryAcquire(outer.Context(), db, key+":2")
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		_, err = lockctx.Acquire(outer.Context(), db, key+":2", lockctx.WithTimeout(time.Second))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		require.ErrorContains(t, err, "held by this process")

		ctx, cancel := context.WithTimeout(outer.Context(), promptly)
		defer cancel()
		waiting := async(func() grant { lk, err := lockctx.Acquire(ctx, db, key+":2"); return grant{lk: lk, err: err} })
		require.NoError(t, first.Close())
		second := within(t, waiting, promptly, "the grant to the second")
		require.NoError(t, second.err)
		require.False(t, out.try(key+":2"), "the second one holds it")
		require.NoError(t, second.lk.Close())
		require.True(t, out.try(key+":2"))
		require.NoError(t, outer.Close())
	})
}

func TestManyUnderOneLocksContextExcludeEachOther(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s), dbtest.Key(t)
		outer := acquire(t, db, key)
		var inside atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 5 {
					lk, err := lockctx.Acquire(outer.Context(), db, key+":2")
					if err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) != 1 {
						t.Error("two are inside")
					}
					inside.Add(-1)
					if err := lk.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		require.NoError(t, outer.Close())
	})
}

// A nested lock's context is a child of the outer one's. Whoever sees it end must be told why by Err too.
func TestANestedLockKnowsItsEndWhenItsContextEnds(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s), dbtest.Key(t)
		for i := range 20 {
			outer := acquire(t, db, key)
			inner, err := lockctx.Acquire(outer.Context(), db, key+":2")
			require.NoError(t, err)
			end := make(chan error, 1)
			context.AfterFunc(inner.Context(), func() { end <- inner.Err() })
			if i%2 == 0 {
				require.NoError(t, outer.Close())
				require.ErrorIs(t, within(t, end, promptly, "the end of the context"), lockctx.ErrReleased)
			} else {
				s.KillSession(t, sessionID(t, s, db, outer))
				require.ErrorIs(t, within(t, end, promptly, "the end of the context"), lockctx.ErrLost)
				require.ErrorIs(t, outer.Close(), lockctx.ErrLost)
			}
		}
	})
}

func TestAKeyOfAcquireAllIsReentered(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		all, err := lockctx.AcquireAll(testCtx(t), db, []string{key + "a", key + "b"})
		require.NoError(t, err)
		for _, k := range all.Keys() {
			lk, err := lockctx.TryAcquire(all.Context(), db, k)
			require.NoError(t, err)
			deeper, err := lockctx.TryAcquire(lk.Context(), db, k)
			require.NoError(t, err)
			require.NoError(t, lk.Close())
			require.ErrorIs(t, deeper.Err(), lockctx.ErrReleased)
			require.False(t, out.try(k))
		}
		require.NoError(t, all.Close())
	})
}
