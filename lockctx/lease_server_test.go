package lockctx_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// requireRenewed waits for a renewal of the lease that began later than now.
func (lt *leaseTable) requireRenewed(key string, ttl time.Duration) {
	lt.t.Helper()
	now := time.Now()
	require.Eventually(lt.t, func() bool {
		row, found := lt.look(key)
		return found && row.left > ttl-time.Since(now)
	}, promptly, 5*time.Millisecond, "no renewal")
}

// wakes tells how long it takes until the one who waits has heard of the release of lk.
func wakes(t *testing.T, lk *lockctx.Lock, waiter <-chan grant) (took time.Duration) {
	t.Helper()
	require.NoError(t, lk.Err())
	require.NoError(t, lk.Close())
	closed := time.Now()
	next := within(t, waiter, promptly, "the next holder")
	require.NoError(t, next.err)
	require.NoError(t, next.lk.Close())
	return next.at.Sub(closed)
}

// awake is longer than to be woken takes, and shorter than to look at the row again.
const awake = 700 * time.Millisecond

func TestALeaseOutlivesWhatBefallsTheServer(t *testing.T) {
	const ttl = 12 * time.Second // MySQL takes its time to restart
	opts := []lockctx.Option{lockctx.Lease(ttl), lockctx.RenewEvery(ttl / 24)}
	for _, k := range []dbtest.Kind{dbtest.MySQL, dbtest.MariaDB, dbtest.Postgres} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			var settings []string
			if k != dbtest.Postgres {
				settings = append(settings, "innodb-flush-log-at-trx-commit=1") // else a crash undoes a claim
			}
			s := dbtest.Private(t, k, settings...)
			view := s.CreateDatabase(t)
			db, other, rows, key := open(t, view), open(t, view), newLeaseTable(t, view), dbtest.Key(t)

			atOnce(t, awake, func() time.Duration {
				lk := acquire(t, db, key, opts...)
				waiter := waitForLease(testCtx(t), t, other, key, opts...)
				s.Stop(t)
				time.Sleep(time.Second)
				s.Cont(t)
				rows.requireRenewed(key, ttl)
				return wakes(t, lk, waiter)
			})

			for name, restart := range map[string]func(){
				"a restart": func() { s.Restart(t) },
				"a crash":   func() { s.Kill(t); s.Start(t) },
			} {
				atOnce(t, awake, func() time.Duration {
					lk := acquire(t, db, key, opts...)
					began := time.Now()
					restart()
					t.Logf("%s took %v", name, time.Since(began))
					newLeaseTable(t, view).requireRenewed(key, ttl)
					return wakes(t, lk, waitForLease(testCtx(t), t, other, key, opts...))
				})
			}
		})
	}
}

func TestALeaseOutlivesAllItsConnections(t *testing.T) {
	const ttl = 6 * time.Second
	opts := []lockctx.Option{lockctx.Lease(ttl), lockctx.RenewEvery(ttl / 12)}
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, other, key := open(t, view), open(t, view), dbtest.Key(t)
		for range 3 {
			atOnce(t, awake, func() time.Duration {
				lk := acquire(t, db, key, opts...)
				waiter := waitForLease(testCtx(t), t, other, key, opts...)
				kill(t, view)
				newLeaseTable(t, view).requireRenewed(key, ttl)
				return wakes(t, lk, waiter)
			})
		}
		lk := acquire(t, db, key, opts...)
		kill(t, view)
		require.NoError(t, lk.Close(), "with every connection dead")
		require.False(t, newLeaseTable(t, view).isHeld(key))
		require.NoError(t, acquire(t, other, key, opts...).Close())
	})
}

// kill ends every session in the view's database.
func kill(t testing.TB, view *dbtest.Server) {
	t.Helper()
	text := "KILL %d"
	if !view.IsMySQL() {
		text = "SELECT pg_terminate_backend(%d)"
	}
	sessions, killer := view.Sessions(t), view.Open(t)
	for _, session := range sessions {
		_, _ = killer.ExecContext(testCtx(t), fmt.Sprintf(text, session.ID)) // it may have ended by itself
	}
	require.NoError(t, killer.Close())
}
