package lockctx_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// ttl is a lease's that no test outlives.
const ttl = 30 * time.Second

func TestALeaseExcludesOthersUntilClose(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, other, key, table := open(t, s), open(t, s), dbtest.Key(t), newLeaseTable(t, s)
		lk := acquire(t, db, key, lockctx.Lease(ttl))
		require.Equal(t, key, lk.Key())
		require.Equal(t, []string{key}, lk.Keys())
		require.NoError(t, lk.Err())
		require.True(t, table.isHeld(key))
		for _, db := range []*sql.DB{db, other} {
			_, err := lockctx.TryAcquire(testCtx(t), db, key, lockctx.Lease(ttl))
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
			require.ErrorContains(t, err, "held by")
			start := time.Now()
			_, err = lockctx.Acquire(testCtx(t), db, key, lockctx.Lease(ttl), lockctx.WithTimeout(150*time.Millisecond))
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
			require.Less(t, time.Since(start), promptly)
		}
		require.NoError(t, lk.Close())
		require.NoError(t, lk.Close())
		require.False(t, table.isHeld(key))
		require.ErrorIs(t, lk.Err(), lockctx.ErrReleased)
		require.ErrorIs(t, lk.Context().Err(), lockctx.ErrReleased)
		require.ErrorIs(t, context.Cause(lk.Context()), lockctx.ErrReleased)
		require.NoError(t, acquire(t, other, key, lockctx.Lease(ttl)).Close())
	})
}

func TestTheTokenOfALeaseGrowsWithEachTenure(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		dbs, key := []*sql.DB{open(t, s), open(t, s)}, dbtest.Key(t)
		last := int64(0)
		for i := range 6 {
			lk := acquire(t, dbs[i%2], key, lockctx.Lease(ttl))
			require.Greater(t, lk.Token(), last)
			last = lk.Token()
			require.NoError(t, lk.Close())
		}
	})
}

func TestWhoWaitsForALeaseGetsItAfterClose(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s), dbtest.Key(t)
		for _, other := range []*sql.DB{db, open(t, s)} {
			lk := acquire(t, db, key, lockctx.Lease(ttl))
			served := make(chan error, 1)
			go func() {
				lk, err := lockctx.Acquire(testCtx(t), other, key, lockctx.Lease(ttl))
				if err == nil {
					err = lk.Close()
				}
				served <- err
			}()
			awaitLease(t, other, key)
			select {
			case err := <-served:
				t.Fatalf("served while the lease was held: %v", err)
			case <-time.After(200 * time.Millisecond):
			}
			require.NoError(t, lk.Close())
			require.NoError(t, <-served)
		}
	})
}

// awaitLease waits until somebody waits for the lock through db.
func awaitLease(t *testing.T, db *sql.DB, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		held, err := lockctx.Held(testCtx(t), db)
		require.NoError(t, err)
		for _, h := range held {
			if h.Key == key && h.Waiters > 0 {
				return h.Kind == "lease"
			}
		}
		return false
	}, 10*time.Second, 2*time.Millisecond)
}

func TestTheEndOfTheContextEndsTheWaitForALeaseAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, other, key := open(t, s), open(t, s), dbtest.Key(t)
		lk := acquire(t, db, key, lockctx.Lease(ttl))
		for _, waiting := range []*sql.DB{db, other} {
			atOnce(t, 500*time.Millisecond, func() time.Duration {
				ctx, cancel := context.WithCancel(testCtx(t))
				ended := async(func() error {
					_, err := lockctx.Acquire(ctx, waiting, key, lockctx.Lease(ttl))
					return err
				})
				awaitLease(t, waiting, key)
				cancel()
				start := time.Now()
				err := within(t, ended, promptly, "the end of the wait")
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorContains(t, err, "held by")
				require.NotErrorIs(t, err, lockctx.ErrNotAcquired)
				return time.Since(start)
			})
		}
		require.NoError(t, lk.Close())
	})
}

func TestAcquireAllTakesAllLeasesOrNone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, other, table := open(t, s), open(t, s), newLeaseTable(t, s)
		key := dbtest.Key(t)
		a, b, c := key+"a", key+"b", key+"c"
		held := acquire(t, other, b, lockctx.Lease(ttl))
		_, err := lockctx.AcquireAll(testCtx(t), db, []string{c, b, a}, lockctx.Lease(ttl), lockctx.WithTimeout(100*time.Millisecond))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		require.Eventually(t, func() bool { return !table.isHeld(a) && !table.isHeld(c) }, 5*time.Second, 2*time.Millisecond)
		require.NoError(t, held.Close())

		lk, err := lockctx.AcquireAll(testCtx(t), db, []string{c, b, a, b}, lockctx.Lease(ttl))
		require.NoError(t, err)
		require.Equal(t, []string{a, b, c}, lk.Keys())
		require.Len(t, lk.Tokens(), 3)
		require.Equal(t, lk.Token(), lk.Tokens()[0])
		for _, key := range lk.Keys() {
			require.True(t, table.isHeld(key))
		}
		require.NoError(t, lk.Close())
		for _, key := range lk.Keys() {
			require.False(t, table.isHeld(key))
		}
	})
}

func TestDBCloseReleasesLeasesAndEndsWaits(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, table := open(t, s), dbtest.Key(t), newLeaseTable(t, s)
		lk := acquire(t, db, key, lockctx.Lease(ttl))
		ended := make(chan error, 1)
		go func() {
			_, err := lockctx.Acquire(testCtx(t), db, key, lockctx.Lease(ttl))
			ended <- err
		}()
		awaitLease(t, db, key)
		require.NoError(t, db.Close())
		require.ErrorIs(t, <-ended, lockctx.ErrClosed)
		require.ErrorIs(t, lk.Context().Err(), lockctx.ErrReleased)
		require.ErrorIs(t, lk.Close(), lockctx.ErrClosed)
		require.False(t, table.isHeld(key))
		_, err := lockctx.Acquire(testCtx(t), db, key, lockctx.Lease(ttl))
		require.ErrorIs(t, err, lockctx.ErrClosed)
	})
}

func TestHeldAndStatsShowLeases(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s), dbtest.Key(t)
		lk := acquire(t, db, key, lockctx.Lease(ttl))
		nested, err := lockctx.Acquire(lk.Context(), db, key, lockctx.Lease(ttl))
		require.NoError(t, err)
		held, err := lockctx.Held(testCtx(t), db)
		require.NoError(t, err)
		require.Len(t, held, 1)
		require.Equal(t, key, held[0].Key)
		require.Equal(t, "lease", held[0].Kind)
		require.Equal(t, lk.Token(), held[0].Token)
		require.NoError(t, nested.Close())
		require.NoError(t, lk.Close())
		held, err = lockctx.Held(testCtx(t), db)
		require.NoError(t, err)
		require.Empty(t, held)
		st, err := lockctx.Stats(db)
		require.NoError(t, err)
		require.Equal(t, []int64{2, 2, 0}, []int64{st.Acquired, st.Released, int64(st.LocksHeld)})
	})
}
