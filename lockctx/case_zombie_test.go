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

// zombieTTL is a whole number of seconds, as MySQL counts.
const zombieTTL = 3 * time.Second

func TestC23_AHolderWhoseNetworkFallsSilentEndsBeforeItsLockIsGranted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		works := map[string]func(*testing.T, *sql.DB, *lockctx.Lock){
			"idle": func(*testing.T, *sql.DB, *lockctx.Lock) {},
			"in a transaction": func(t *testing.T, db *sql.DB, lk *lockctx.Lock) {
				tx, err := db.BeginTx(lk.Context(), nil)
				require.NoError(t, err)
				t.Cleanup(func() { _ = tx.Rollback() })
				_, err = tx.Exec("SELECT 1")
				require.NoError(t, err)
			},
			"with a result set open": func(t *testing.T, db *sql.DB, lk *lockctx.Lock) {
				rows, err := db.QueryContext(lk.Context(), "SELECT 1 UNION ALL SELECT 2")
				require.NoError(t, err)
				t.Cleanup(func() { _ = rows.Close() })
				require.True(t, rows.Next())
			},
		}
		for name, work := range works {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				relay, key, stood := s.Relay(t), dbtest.Key(t), watchStandstill(t)
				db, other := openDSN(t, relay.DSN(), driver.WithTTL(zombieTTL)), open(t, s)
				lk := acquire(t, db, key)
				work(t, db, lk)
				id, told := holdingSession(t, s, lk), endOf(lk.Context())
				next := waitFor(testCtx(t), t, other, key)
				relay.CutForGood()
				cut := time.Now()

				_, err := lockctx.TryAcquire(testCtx(t), other, key)
				require.ErrorIs(t, err, lockctx.ErrNotAcquired)
				_, err = lockctx.Acquire(testCtx(t), open(t, s), key, lockctx.WithTimeout(0))
				if time.Since(cut) < zombieTTL/3 { // else the next one may have it already
					require.ErrorContains(t, err, fmt.Sprint(id), "others see which session it is")
				}

				g := within(t, next, promptly, "the next holder")
				require.NoError(t, g.err)
				require.LessOrEqual(t, g.at.Sub(cut), zombieTTL+time.Second+stood.time())
				ended := within(t, told, promptly, "the end of the silent holder's context")
				stood.requireToldFirst(t, ended, g.at, zombieTTL, "two holders at a time")
				require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
				require.NoError(t, g.lk.Err())
				require.NoError(t, g.lk.Close())
			})
		}
	})
}

// A waiter's session can be granted the lock while nobody hears of it.
func TestC23_AWaiterWhoseNetworkFallsSilentBlocksTheLockForTheTTLAtMost(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		relay, out, key, stood := s.Relay(t), newOutsider(t, s), dbtest.Key(t), watchStandstill(t)
		db := openDSN(t, relay.DSN(), driver.WithTTL(zombieTTL))
		require.True(t, out.take(key))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		waiter := waitFor(ctx, t, db, key)
		requireWaitsForLock(t, s, key)
		relay.CutForGood()
		out.release(key) // which grants it to the silent waiter
		cancel()
		g := within(t, waiter, promptly, "the end of the wait")
		require.ErrorIs(t, g.err, context.Canceled)
		began := time.Now()
		out.free(key, promptly)
		require.LessOrEqual(t, time.Since(began), zombieTTL+time.Second+stood.time())
		relay.Heal()
		require.NoError(t, acquire(t, db, key).Close())
	})
}

func TestC23_AHolderThatWaitsForAFurtherLockInSilenceEndsBeforeItsLockIsGranted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		relay, out, key, stood := s.Relay(t), newOutsider(t, s), dbtest.Key(t), watchStandstill(t)
		db, further := openDSN(t, relay.DSN(), driver.WithTTL(zombieTTL)), dbtest.Key(t)
		require.True(t, out.take(further))
		lk := acquire(t, db, key)
		told := endOf(lk.Context())
		nested := async(func() error { _, err := lockctx.Acquire(lk.Context(), db, further); return err })
		requireWaitsForLock(t, s, further)
		relay.CutForGood()

		next, err := lockctx.Acquire(testCtx(t), open(t, s), key)
		granted := time.Now()
		require.NoError(t, err)
		ended := within(t, told, promptly, "the end of the silent holder's context")
		stood.requireToldFirst(t, ended, granted, zombieTTL, "two holders at a time")
		require.ErrorIs(t, within(t, nested, promptly, "the further lock"), lockctx.ErrLost)
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		require.NoError(t, next.Close())
		out.release(further)
	})
}

// The answer that says granted comes after the server has given the lock to
// the next already: it must not be believed.
func TestC23_AGrantThatArrivesAfterTheTTLIsNoGrant(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		relay, out, key := s.Relay(t), newOutsider(t, s), dbtest.Key(t)
		db := openDSN(t, relay.DSN(), driver.WithTTL(zombieTTL))
		require.NoError(t, acquire(t, db, key).Close()) // a session is there
		require.True(t, out.take(key))
		waiter := waitFor(testCtx(t), t, db, key)
		requireWaitsForLock(t, s, key)
		relay.Cut()
		out.release(key)
		silent := time.Now()
		require.Eventually(t, func() bool { return out.take(key) }, promptly, 10*time.Millisecond)
		t.Logf("granted to the next after %v", time.Since(silent))
		relay.Heal()
		select {
		case g := <-waiter:
			require.Error(t, g.err, "two holders at a time")
		case <-time.After(time.Second):
			out.release(key)
			g := within(t, waiter, promptly, "the waiter's turn")
			require.NoError(t, g.err)
			require.NoError(t, g.lk.Close())
		}
	})
}

// requireWaitsForLock waits until a session waits at the server for the lock.
func requireWaitsForLock(t testing.TB, s *dbtest.Server, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, session := range s.Sessions(t) {
			name := fmt.Sprint(lockID(t, key))
			if s.IsMySQL() {
				name = lockName(t, key)
			}
			if (session.State == "User lock" || session.State == "advisory") && strings.Contains(session.Query, name) {
				return true
			}
		}
		return false
	}, promptly, 5*time.Millisecond)
}
