//go:build unix

package lockctx_test

import (
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

func TestI6_TheLocksOfAStoppedProcessEndWithinTheTTLAndItLearnsOfItWhenItGoesOn(t *testing.T) {
	const ttl = 3 * time.Second
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		p, stood := startHolder(t, view, ttl, promptly), watchStandstill(t)
		p.signal(syscall.SIGSTOP)
		stopped := time.Now()
		for name, c := range p.waitForAll(open(t, view, driver.WithTTL(ttl))) {
			next := within(t, c, 2*ttl+promptly, name)
			require.NoError(t, next.err, name)
			t.Logf("%s: the other granted after %v", name, next.at.Sub(stopped))
			require.LessOrEqual(t, next.at.Sub(stopped), ttl+time.Second+stood.time(), name)
			require.NoError(t, next.lk.Close())
		}
		p.signal(syscall.SIGCONT)
		var report holdReport
		require.NoError(t, json.Unmarshal([]byte(p.line()), &report))
		require.False(t, report.Committed)
		require.True(t, report.CommitIs, report.Commit)
		require.Equal(t, map[string]bool{p.order.Idle: true, p.order.InTx: true, p.order.Query: true}, report.Told)
		require.Empty(t, tab.ids())
	})
}

func TestI6_TheLocksOfAKilledProcessEndAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		p := startHolder(t, view, time.Hour, promptly)
		granted := p.waitForAll(open(t, view))
		requireWaitsAtServer(t, view)
		p.signal(syscall.SIGKILL)
		killed := time.Now()
		for name, c := range granted {
			next := within(t, c, promptly, name)
			require.NoError(t, next.err, name)
			t.Logf("%s: the other granted after %v", name, next.at.Sub(killed))
			require.NoError(t, next.lk.Close())
		}
		require.Empty(t, tab.ids())
	})
}

func TestI6_AShortStopOfAProcessDoesNotCostItsLocks(t *testing.T) {
	const ttl = 4 * time.Second
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		p := startHolder(t, view, ttl, ttl)
		granted := p.waitForAll(open(t, view))
		p.signal(syscall.SIGSTOP)
		time.Sleep(ttl / 4) // a third may have gone by since the last sign of life, and a sixth is kept back
		p.signal(syscall.SIGCONT)
		var report holdReport
		require.NoError(t, json.Unmarshal([]byte(p.line()), &report))
		require.True(t, report.Committed, report.Commit)
		require.Empty(t, report.Told, "a whole TTL after the stop")
		require.Equal(t, []int{1}, tab.ids())
		for name, c := range granted { // the process ends without closing anything
			next := within(t, c, promptly, name)
			require.NoError(t, next.err)
			require.NoError(t, next.lk.Close())
		}
	})
}
