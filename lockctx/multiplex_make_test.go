package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func statsOf(t testing.TB, db *sql.DB) lockctx.Statistics {
	t.Helper()
	stats, err := lockctx.Stats(db)
	require.NoError(t, err)
	return stats
}

func TestMultiplexedLocksThatAreTakenAtOnceNeedFewSessions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for name, opts := range map[string][]lockctx.Option{
			"Acquire":    {lockctx.Multiplexed()},
			"TryAcquire": {lockctx.Multiplexed(), lockctx.WithTimeout(0)},
		} {
			db, key := open(t, s), dbtest.Key(t)
			var wg sync.WaitGroup
			locks := make([]*lockctx.Lock, 48)
			for i := range locks {
				wg.Go(func() {
					lk, err := lockctx.Acquire(testCtx(t), db, fmt.Sprint(key, "-", i), opts...)
					if err != nil {
						t.Error(name, err)
						return
					}
					locks[i] = lk
				})
			}
			wg.Wait()
			require.LessOrEqual(t, statsOf(t, db).SessionsOpen, 2, name)
			for _, lk := range locks {
				require.NoError(t, lk.Close())
			}
		}
	})
}

func TestAMultiplexedLockWaitsForASessionNoLongerThanItMay(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s, driver.WithMaxSessions(1)), dbtest.Key(t)
		pinned := acquire(t, db, key+"-pinned")
		waits := async(func() error { // the first makes the session; the others wait for that
			ctx, cancel := context.WithCancel(testCtx(t))
			defer cancel()
			time.AfterFunc(1500*time.Millisecond, cancel)
			_, err := lockctx.Acquire(ctx, db, key+"-first", lockctx.Multiplexed())
			return err
		})
		require.Eventually(t, func() bool { return statsOf(t, db).Waiters == 1 }, promptly, time.Millisecond)
		for i := range 3 {
			_, err := lockctx.Acquire(testCtx(t), db, fmt.Sprint(key, "-", i), lockctx.Multiplexed(), lockctx.WithTimeout(300*time.Millisecond))
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
			require.ErrorContains(t, err, "lockdb_max_sessions")
			_, err = lockctx.TryAcquire(testCtx(t), db, fmt.Sprint(key, "-", i), lockctx.Multiplexed())
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		}
		require.ErrorIs(t, within(t, waits, promptly, "the first"), context.Canceled)
		require.Zero(t, statsOf(t, db).Waiters)
		require.NoError(t, pinned.Close())
		lk := acquire(t, db, key+"-first", lockctx.Multiplexed())
		require.NoError(t, lk.Close())
	})
}

func TestASessionThatBecomesSharedServesThoseWhoWaitForOne(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s, driver.WithMaxSessions(1)), dbtest.Key(t)
		pinned := acquire(t, db, key)
		type grant struct {
			lk  *lockctx.Lock
			err error
		}
		take := func(key string, waiters int) <-chan grant {
			got := async(func() grant {
				lk, err := lockctx.Acquire(testCtx(t), db, key, lockctx.Multiplexed())
				return grant{lk, err}
			})
			require.Eventually(t, func() bool { return statsOf(t, db).Waiters == waiters }, promptly, time.Millisecond)
			return got
		}
		same := take(key, 1)
		other, third := take(key+"-other", 2), take(key+"-third", 3)
		require.NoError(t, pinned.Close()) // hands its session on
		for _, got := range []<-chan grant{same, other, third} {
			g := within(t, got, promptly, "a session")
			require.NoError(t, g.err)
			defer func() { require.NoError(t, g.lk.Close()) }()
		}
	})
}

func TestWhoWaitsForAMultiplexedLockNeedsNoSessionThatNobodyWillGive(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, elsewhere, key := open(t, s, driver.WithMaxSessions(1)), open(t, s), dbtest.Key(t)
		kept := acquire(t, db, key+"-kept", lockctx.Multiplexed()) // has the one session, for good
		theirs := acquire(t, elsewhere, key)
		waits := make([]<-chan error, 3)
		for i := range waits {
			waits[i] = async(func() error {
				lk, err := lockctx.Acquire(testCtx(t), db, key, lockctx.Multiplexed())
				if err != nil {
					return err
				}
				return lk.Close()
			})
		}
		require.Eventually(t, func() bool { return statsOf(t, db).Waiters == len(waits) }, promptly, time.Millisecond)
		require.NoError(t, theirs.Close())
		for _, w := range waits {
			require.NoError(t, within(t, w, promptly, "the lock"))
		}
		require.Equal(t, 1, statsOf(t, db).SessionsOpen)
		require.NoError(t, kept.Close())
		again := acquire(t, db, key) // the session is nobody's any more
		require.NoError(t, again.Close())
	})
}

func TestAMultiplexedLockIsKnownUnderAPinnedOneToo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		shared := acquire(t, db, key, lockctx.Multiplexed())
		pinned, err := lockctx.Acquire(shared.Context(), db, key+"-pinned")
		require.NoError(t, err)
		_, err = lockctx.Acquire(pinned.Context(), db, key, lockctx.WithTimeout(promptly))
		require.ErrorIs(t, err, lockctx.ErrDeadlock)
		_, err = lockctx.AcquireAll(pinned.Context(), db, []string{key + "-a", key, key + "-b"}, lockctx.WithTimeout(promptly))
		require.ErrorIs(t, err, lockctx.ErrDeadlock)
		_, err = lockctx.AcquireAll(shared.Context(), db, []string{key + "-a", key, key + "-b"}, lockctx.WithTimeout(promptly))
		require.ErrorIs(t, err, lockctx.ErrDeadlock)
		again, err := lockctx.Acquire(pinned.Context(), db, key, lockctx.Multiplexed(), lockctx.WithTimeout(promptly))
		require.NoError(t, err)
		require.NoError(t, again.Close())
		require.False(t, out.try(key))
		require.NoError(t, pinned.Close())
		require.NoError(t, shared.Close())
		require.True(t, out.try(key))
	})
}

func TestMultiplexedLocksExcludeWhileSessionsAreKilledAndContextsEnd(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s), dbtest.Key(t)
		stop := make(chan struct{})
		var wg, killer sync.WaitGroup
		killer.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(30 * time.Millisecond):
				}
				held, err := lockctx.Held(context.Background(), db)
				if err == nil && len(held) > 0 && held[0].Session != 0 {
					s.KillSession(t, held[0].Session)
				}
			}
		})
		for g := range 8 {
			wg.Go(func() {
				for i := range 60 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+(i*7+g*13)%40)*time.Millisecond)
					var opts []lockctx.Option
					if g%4 != 0 {
						opts = append(opts, lockctx.Multiplexed())
					}
					lk, err := lockctx.Acquire(ctx, db, fmt.Sprint(key, "-", (i+g)%3), opts...)
					if err == nil {
						if err := lk.Close(); err != nil && !errors.Is(err, lockctx.ErrLost) {
							t.Error(err)
						}
					}
					cancel()
				}
			})
		}
		wg.Wait()
		close(stop)
		killer.Wait()
		require.Eventually(t, func() bool {
			st := statsOf(t, db)
			return st.LocksHeld == 0 && st.Waiters == 0 && len(heldBy(t, db)) == 0
		}, promptly, time.Millisecond)
		out := newOutsider(t, s)
		for i := range 3 {
			out.free(fmt.Sprint(key, "-", i), promptly)
			lk := acquire(t, db, fmt.Sprint(key, "-", i), lockctx.Multiplexed())
			require.NoError(t, lk.Close())
		}
	})
}
