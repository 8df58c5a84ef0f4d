package lockctx_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestManyMultiplexedLocksNeedOneSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		locks := make([]*lockctx.Lock, 300)
		for i := range locks {
			locks[i] = acquire(t, db, fmt.Sprint(key, "-", i), lockctx.Multiplexed())
		}
		stats, err := lockctx.Stats(db)
		require.NoError(t, err)
		require.Equal(t, 1, stats.SessionsOpen)
		require.False(t, out.try(fmt.Sprint(key, "-", 7)))
		_, err = lockctx.TryAcquire(testCtx(t), db, fmt.Sprint(key, "-", 7), lockctx.Multiplexed())
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		_, err = lockctx.TryAcquire(testCtx(t), db, fmt.Sprint(key, "-", 7))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		require.NoError(t, locks[7].Close())
		require.True(t, out.try(fmt.Sprint(key, "-", 7)), "Close of one releases it")
		require.False(t, out.try(fmt.Sprint(key, "-", 8)), "and no other")
		for _, lk := range locks {
			require.NoError(t, lk.Close())
		}
		require.True(t, out.try(fmt.Sprint(key, "-", 8)))
	})
}

func TestAMultiplexedLockIsWaitedForOnASessionThatBecomesShared(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		other := acquire(t, db, key+"-other", lockctx.Multiplexed())
		require.True(t, out.take(key))
		got := make(chan *lockctx.Lock)
		go func() { got <- acquire(t, db, key, lockctx.Multiplexed()) }()
		require.Eventually(t, func() bool {
			stats, err := lockctx.Stats(db)
			return err == nil && stats.Waiters == 1
		}, promptly, time.Millisecond)
		released := make(chan error, 1)
		go func() { released <- other.Close() }()
		select {
		case err := <-released:
			require.NoError(t, err)
		case <-time.After(promptly):
			t.Fatal("a release waits behind a waiter")
		}
		out.release(key)
		lk := <-got
		require.NoError(t, lk.Err())
		third := acquire(t, db, key+"-third", lockctx.Multiplexed())
		require.NoError(t, third.Close())
		require.NoError(t, lk.Close())
		require.True(t, out.try(key))
	})
}

func TestTheLossOfASharedSessionEndsAllItsLocks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s), dbtest.Key(t)
		var locks []*lockctx.Lock
		for i := range 20 {
			locks = append(locks, acquire(t, db, fmt.Sprint(key, "-", i), lockctx.Multiplexed()))
		}
		held, err := lockctx.Held(testCtx(t), db)
		require.NoError(t, err)
		s.KillSession(t, held[0].Session)
		for _, lk := range locks {
			select {
			case <-lk.Context().Done():
			case <-time.After(promptly):
				t.Fatal("a lock does not know of its loss")
			}
			require.ErrorIs(t, lk.Context().Err(), lockctx.ErrLost)
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		}
		again := acquire(t, db, fmt.Sprint(key, "-", 3), lockctx.Multiplexed())
		require.NoError(t, again.Close())
	})
}

func TestMultiplexedLocksExcludeEachOtherAndThoseWithASessionOfTheirOwn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		key := dbtest.Key(t)
		var inside sync.Mutex
		var wg sync.WaitGroup
		for range 2 {
			db := open(t, s)
			for g := range 8 {
				wg.Go(func() {
					var opts []lockctx.Option
					if g%4 != 0 {
						opts = append(opts, lockctx.Multiplexed())
					}
					for range 25 {
						ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
						lk, err := lockctx.Acquire(ctx, db, key, opts...)
						if err != nil {
							t.Error(err)
							cancel()
							return
						}
						if !inside.TryLock() {
							t.Error("two are inside")
						} else {
							inside.Unlock()
						}
						if err := lk.Close(); err != nil {
							t.Error(err)
						}
						cancel()
					}
				})
			}
		}
		wg.Wait()
	})
}

func TestAMultiplexedLockIsReenteredByContext(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		outer := acquire(t, db, key, lockctx.Multiplexed())
		inner, err := lockctx.Acquire(outer.Context(), db, key, lockctx.Multiplexed())
		require.NoError(t, err)
		require.NoError(t, inner.Close())
		require.False(t, out.try(key), "the inner Close released the outer lock")
		_, err = lockctx.Acquire(outer.Context(), db, key)
		require.ErrorIs(t, err, lockctx.ErrDeadlock)
		inner, err = lockctx.Acquire(outer.Context(), db, key, lockctx.Multiplexed())
		require.NoError(t, err)
		require.NoError(t, outer.Close())
		require.Error(t, inner.Context().Err())
		require.ErrorIs(t, inner.Err(), lockctx.ErrReleased)
		require.True(t, out.try(key))
	})
}

func TestUnderAReentryOfAMultiplexedLockTheOnesAroundItAreReenteredToo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		keys := []string{key + "/a", key + "/b", key + "/a", key + "/b", key + "/c", key + "/a", key + "/b", key + "/c"}
		ctx := testCtx(t)
		var held []*lockctx.Lock
		for _, key := range keys {
			lk, err := lockctx.Acquire(ctx, db, key, lockctx.Multiplexed(), lockctx.WithTimeout(promptly))
			require.NoError(t, err)
			held, ctx = append(held, lk), lk.Context()
		}
		for i, lk := range slices.Backward(held) {
			require.NoError(t, lk.Err())
			require.NoError(t, lk.Close())
			for _, key := range keys[:3] {
				require.Equal(t, !slices.Contains(keys[:i], key), out.try(key), "%s after Close of the lock %d", key, i)
			}
		}
	})
}

func TestWhatNeedsASessionOfItsOwnDoesNotGoWithMultiplexed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s), dbtest.Key(t)
		require.ErrorIs(t, lockctx.InTx(testCtx(t), db, key, nil, nil, lockctx.Multiplexed()), lockctx.ErrUnsupported)
		_, err := lockctx.AcquireAll(testCtx(t), db, []string{key, key + "2"}, lockctx.Multiplexed())
		require.ErrorIs(t, err, lockctx.ErrUnsupported)
		_, err = lockctx.Acquire(testCtx(t), db, key, lockctx.Multiplexed(), lockctx.Lease(time.Second))
		require.ErrorIs(t, err, lockctx.ErrUnsupported)
		lk := acquire(t, db, key, lockctx.Multiplexed())
		_, err = lk.Conn(testCtx(t))
		require.ErrorIs(t, err, lockctx.ErrUnsupported)
		require.NoError(t, lk.Close())
	})
}

func TestMultiplexedLocksLeaveTheServersLockTableRoom(t *testing.T) {
	s := dbtest.Private(t, dbtest.Postgres, "max_connections=10", "max_locks_per_transaction=10")
	db := open(t, s, driver.WithMaxSessions(2))
	var err error
	var locks []*lockctx.Lock
	for i := 0; err == nil; i++ {
		var lk *lockctx.Lock
		if lk, err = lockctx.Acquire(testCtx(t), db, fmt.Sprint("key-", i), lockctx.Multiplexed()); err == nil {
			locks = append(locks, lk)
		}
	}
	require.ErrorIs(t, err, lockctx.ErrUnsupported)
	require.ErrorContains(t, err, "max_locks_per_transaction")
	require.Len(t, locks, 75)
	require.NoError(t, s.Open(t).PingContext(testCtx(t)), "the server takes no connection any more")
	for _, lk := range locks {
		require.NoError(t, lk.Close())
	}
}
