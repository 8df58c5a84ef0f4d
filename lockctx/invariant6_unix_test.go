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
		p := startHolder(t, view, ttl)
		p.signal(syscall.SIGSTOP)
		stopped := time.Now()
		for name, c := range p.waitForAll(open(t, view, driver.WithTTL(ttl))) {
			next := within(t, c, 2*ttl+promptly, name)
			require.NoError(t, next.err, name)
			t.Logf("%s: the other granted after %v", name, next.at.Sub(stopped))
			require.LessOrEqual(t, next.at.Sub(stopped), ttl+time.Second, name)
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
		p := startHolder(t, view, time.Hour)
		granted := p.waitForAll(open(t, view))
		requireWaitsAtServer(t, view)
		p.signal(syscall.SIGKILL)
		killed := time.Now()
		for name, c := range granted {
			next := within(t, c, promptly, name)
			require.NoError(t, next.err, name)
			require.Less(t, next.at.Sub(killed), time.Second, name)
			require.NoError(t, next.lk.Close())
		}
		require.Empty(t, tab.ids())
	})
}
