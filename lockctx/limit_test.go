package lockctx_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// waitForSession acquires on a goroutine of its own, and returns when that waits for a session.
func waitForSession(ctx context.Context, t testing.TB, db *sql.DB, key string, opts ...lockctx.Option) <-chan grant {
	t.Helper()
	return waitIn(ctx, t, "(*Keeper).session", db, key, opts...)
}

func TestMaxSessionsAreGivenInTheOrderOfAsking(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s, driver.WithMaxSessions(2)), dbtest.Key(t)
		first, second := acquire(t, db, key+":1"), acquire(t, db, key+":2")
		var waits []<-chan grant
		for i := range 5 {
			waits = append(waits, waitForSession(testCtx(t), t, db, fmt.Sprint(key, ":w", i)))
		}
		require.NoError(t, first.Close())
		for i, wait := range waits {
			got := within(t, wait, promptly, "the turn")
			require.NoError(t, got.err)
			for _, later := range waits[i+1:] {
				require.Empty(t, later, "it came later and is served first")
			}
			require.NoError(t, got.lk.Close())
		}
		require.NoError(t, second.Close())
	})
}

func TestAWaitForOneOfMaxSessionsHonoursItsContextAndSaysWhatItWaitedFor(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s, driver.WithMaxSessions(1)), dbtest.Key(t)
		lk := acquire(t, db, key)
		ctx, cancel := context.WithCancel(testCtx(t))
		wait := waitForSession(ctx, t, db, key+":2")
		behindCtx, cancelBehind := context.WithCancel(testCtx(t))
		behind := waitFor(behindCtx, t, db, key+":2")
		cancel()
		got := within(t, wait, promptly, "the end of the context")
		require.ErrorIs(t, got.err, context.Canceled)
		require.ErrorContains(t, got.err, "lockdb_max_sessions")
		require.Eventually(t, func() bool { // until the one behind has his turn to ask for a session
			_, err := lockctx.TryAcquire(testCtx(t), db, key+":2")
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
			return strings.Contains(err.Error(), "lockdb_max_sessions")
		}, promptly, time.Millisecond)
		cancelBehind()
		got = within(t, behind, promptly, "the end of the context")
		require.ErrorIs(t, got.err, context.Canceled)
		require.ErrorContains(t, got.err, "lockdb_max_sessions")
		start := time.Now()
		_, err := lockctx.Acquire(testCtx(t), db, key+":2", lockctx.WithTimeout(time.Second))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		require.ErrorContains(t, err, "all 1 lock sessions that lockdb_max_sessions allows are in use")
		require.Greater(t, time.Since(start), 900*time.Millisecond)
		require.Less(t, time.Since(start), promptly)

		start = time.Now()
		_, err = lockctx.TryAcquire(testCtx(t), db, key+":3")
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		require.ErrorContains(t, err, "lockdb_max_sessions")
		require.Less(t, time.Since(start), promptly, "TryAcquire waits for nobody")

		nested, err := lockctx.Acquire(lk.Context(), db, key+":2")
		require.NoError(t, err, "under the lock's context there is a session")
		require.NoError(t, nested.Close())
		require.NoError(t, lk.Close())
		require.NoError(t, acquire(t, db, key+":2").Close(), "those who gave up took nothing with them")
	})
}

func TestAFullServerIsWaitedForWhileALockSessionCanComeFree(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		dsn, key := limitedUser(t, s, 2), dbtest.Key(t)
		db := openDSN(t, dsn)
		first, second := acquire(t, db, key+":1"), acquire(t, db, key+":2")

		ctx, cancel := context.WithTimeout(testCtx(t), time.Second)
		defer cancel()
		_, err := lockctx.Acquire(ctx, db, key+":3")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "takes no more connections")
		_, err = lockctx.TryAcquire(testCtx(t), db, key+":3")
		require.ErrorContains(t, err, "takes no more connections")

		wait := waitForSession(testCtx(t), t, db, key+":3")
		require.NoError(t, first.Close())
		third := within(t, wait, promptly, "the session that came free")
		require.NoError(t, third.err)
		require.NoError(t, third.lk.Close())
		require.NoError(t, second.Close())
	})
}

func TestAFullServerIsAskedAgainSinceOthersMayLeaveIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		dsn, key := limitedUser(t, s, 2), dbtest.Key(t)
		stranger := openBare(t, s, dsn)
		require.NoError(t, stranger.Ping())
		db := openDSN(t, dsn)
		held := acquire(t, db, key+":1") // for good
		wait := waitForSession(testCtx(t), t, db, key+":2")
		require.NoError(t, stranger.Close())
		got := within(t, wait, promptly, "the place that the stranger left")
		require.NoError(t, got.err)
		require.NoError(t, got.lk.Close())
		require.NoError(t, held.Close())
	})
}

func TestAFullServerIsAnErrorWhereNoLockSessionCanComeFree(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		dsn, key := limitedUser(t, s, 1), dbtest.Key(t)
		stranger := openBare(t, s, dsn)
		require.NoError(t, stranger.Ping())
		db := openDSN(t, dsn, driver.WithMaxSessions(3))
		errs := make(chan error)
		for i := range 8 { // more than are dialled for
			go func() {
				_, err := lockctx.Acquire(testCtx(t), db, fmt.Sprint(key, ":", i))
				errs <- err
			}()
		}
		for range 8 {
			err := within(t, errs, promptly, "the error")
			require.ErrorContains(t, err, "takes no more connections")
			require.NotErrorIs(t, err, lockctx.ErrNotAcquired)
		}
	})
}

func TestADialThatFailsLeavesNobodyWaiting(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := openDSN(t, s.DSNAt(deadAddr), driver.WithMaxSessions(2)), dbtest.Key(t)
		errs := make(chan error)
		for i := range 8 {
			go func() {
				_, err := lockctx.Acquire(testCtx(t), db, fmt.Sprint(key, ":", i))
				errs <- err
			}()
		}
		for range 8 {
			err := within(t, errs, promptly, "the error")
			require.ErrorContains(t, err, "open a session for locks")
			require.NotErrorIs(t, err, lockctx.ErrNotAcquired)
		}
	})
}

func TestDBCloseEndsAllWaitsAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		key, out := dbtest.Key(t), newOutsider(t, s)
		require.True(t, out.take(key))
		atOnce(t, 100*time.Millisecond, func() (took time.Duration) {
			c, err := driver.OpenConnector(s.DSN(), driver.WithMaxSessions(2))
			require.NoError(t, err)
			db := sql.OpenDB(c)
			lk := acquire(t, db, key+":1")
			waits := []<-chan grant{
				waitFor(testCtx(t), t, db, key), // at the server
				waitFor(testCtx(t), t, db, key),
				waitFor(testCtx(t), t, db, key+":1"),
				waitForSession(testCtx(t), t, db, key+":2"),
				waitFor(testCtx(t), t, db, key+":2"),
			}
			start := time.Now()
			require.NoError(t, db.Close())
			took = time.Since(start)
			for _, wait := range waits {
				got := within(t, wait, promptly, "the end of the wait")
				require.ErrorIs(t, got.err, lockctx.ErrClosed)
				took = max(took, got.at.Sub(start))
			}
			require.ErrorIs(t, lk.Err(), lockctx.ErrClosed)
			out.free(key+":1", promptly)
			return took
		})
		out.release(key)
	})
}

func TestAFullLockTableCostsOnlyTheSessionThatFilledIt(t *testing.T) {
	s := dbtest.Private(t, dbtest.Postgres, "max_locks_per_transaction=10", "max_connections=20")
	db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
	keys := make([]string, 20_000)
	for i := range keys {
		keys[i] = fmt.Sprint(key, ":", i)
	}
	for range 2 {
		lk, err := lockctx.AcquireAll(testCtx(t), db, keys)
		require.Nil(t, lk)
		require.ErrorContains(t, err, "max_locks_per_transaction")
		require.ErrorContains(t, err, "53200")
		require.NoError(t, acquire(t, db, key).Close())
		require.Eventually(t, func() bool { return out.try(keys[0]) }, promptly, time.Millisecond)
	}
}

func TestTooFewConnectionsOnATinyServer(t *testing.T) {
	for kind, settings := range map[dbtest.Kind][]string{
		dbtest.Postgres: {"max_connections=8", "superuser_reserved_connections=0"},
		dbtest.MySQL:    {"max_connections=10"},
		dbtest.MariaDB:  {"max_connections=10"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			s := dbtest.Private(t, kind, settings...)
			db, key := open(t, s), dbtest.Key(t)
			errs := make(chan error)
			for i := range 40 {
				go func() {
					errs <- lockctx.Do(testCtx(t), db, fmt.Sprint(key, ":", i), func(context.Context) error {
						time.Sleep(20 * time.Millisecond)
						return nil
					})
				}()
			}
			for range 40 {
				require.NoError(t, within(t, errs, 2*promptly, "the turn"))
			}
		})
	}
}
