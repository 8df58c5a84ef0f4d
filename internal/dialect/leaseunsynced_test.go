package dialect_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/dialect"
)

// A standby that is not there keeps every commit waiting that is to be safe from a crash.
func TestAReleaseDoesNotWaitUntilItIsSafeFromACrashButAClaimDoes(t *testing.T) {
	tab := newTable(t, dbtest.Private(t, dbtest.Postgres))
	m, admin := tab.member(t), tab.bare(t)
	probe := tab.bare(t)
	row, err := probe.QuerySimple(t.Context(), "SELECT pg_backend_pid()")
	require.NoError(t, err)
	probePID := row[0]
	probe.run(t, "CREATE TABLE probe (n int)", "SET synchronous_commit = on")
	var stop atomic.Bool
	waits := func(pid any) {
		t.Helper()
		require.Eventually(t, func() bool {
			row, err := admin.QuerySimple(t.Context(), fmt.Sprint("SELECT wait_event FROM pg_stat_activity WHERE pid=", pid))
			return err == nil && row[0] == "SyncRep"
		}, 10*time.Second, 10*time.Millisecond, "it does not wait")
	}
	for _, mode := range []dialect.CompanionMode{dialect.CompanionIgnored, dialect.CompanionTaken} {
		c := tab.companion(t, mode)
		var companion *dialect.Name
		if mode == dialect.CompanionTaken {
			companion = &c.Name
		}
		l := dialect.Lease{Key: "k", Owner: "a", TTL: time.Hour}
		claim := func() error {
			g, err := m.Claim(t.Context(), m.querier, m.s, l, c)
			l.Token = g.Token
			return err
		}
		release := func() {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			released, freed, err := m.Release(ctx, m.querier, m.s, l, companion)
			require.NoError(t, err)
			require.True(t, released)
			require.Equal(t, companion != nil, freed)
		}
		require.NoError(t, claim())
		admin.run(t, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
		probed := make(chan error)
		go func() { // commits until one waits: the server's processes hear of the setting one by one
			var err error
			for err == nil && !stop.Load() {
				err = probe.Exec(t.Context(), "INSERT INTO probe VALUES (1)")
			}
			probed <- err
		}()
		waits(probePID)
		release()
		row, err := m.QuerySimple(t.Context(), "SHOW synchronous_commit")
		require.NoError(t, err)
		require.Equal(t, "on", row[0])

		claimed := make(chan error)
		go func() { claimed <- claim() }()
		waits(m.s.SessionID)
		stop.Store(true)
		admin.run(t, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
		require.NoError(t, <-claimed)
		require.NoError(t, <-probed)
		stop.Store(false)
		release()
	}
}
