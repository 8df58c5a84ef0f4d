//go:build unix

package lockctx_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

const (
	failoverTTL    = 1500 * time.Millisecond
	failoverMargin = 500 * time.Millisecond
)

func TestC63_AKilledOrStoppedHoldersLeaseIsTheNextOnesWithinTheTTL(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		atOnce(t, failoverTTL+failoverMargin, func() time.Duration { return failover(t, view) })
	})
}

// failover tells how long it takes, at most, from the end of a holder until the next one has its lease.
func failover(t *testing.T, view *dbtest.Server) (took time.Duration) {
	t.Helper()
	db, rows := open(t, view), newLeaseTable(t, view)
	ends := []*struct {
		how     string
		sig     syscall.Signal
		key     string
		holder  *process
		held    tenure
		granted <-chan grant
		at      time.Time
		expiry  time.Time // not before
	}{{how: "killed", sig: syscall.SIGKILL}, {how: "stopped", sig: syscall.SIGSTOP}}
	for _, e := range ends {
		e.key, e.holder = dbtest.Key(t), startPeer(t, view)
		e.held = peerAcquire.must(e.holder, leaseArgs{Name: "it", Keys: []string{e.key}, TTL: failoverTTL})
		e.granted = queueUp(t, db, e.key, lockctx.Lease(lasting))
	}
	time.Sleep(failoverTTL * 2 / 5) // they have been renewed
	for _, e := range ends {
		asked := time.Now()
		row, _ := rows.look(e.key)
		if row.token != e.held.Token {
			t.Log("the holder has lost the lease already: has the machine stalled?")
			return promptly
		}
		e.expiry = asked.Add(row.left)
		e.at = time.Now()
		e.holder.signal(e.sig)
	}
	for _, e := range ends {
		g := within(t, e.granted, promptly, "the next holder")
		require.NoError(t, g.err)
		t.Logf("the holder was %s, and the next one had it after %v", e.how, g.at.Sub(e.at))
		took = max(took, g.at.Sub(e.at))
		require.False(t, g.at.Before(e.expiry), "the lease had not expired")
		require.Greater(t, g.lk.Token(), e.held.Token)
		if e.sig == syscall.SIGSTOP {
			e.holder.signal(syscall.SIGCONT)
			d := within(t, peerEnd.begin(e.holder, "it"), promptly, "the news of the loss")
			require.NoError(t, d.Err)
			require.ErrorIs(t, d.R.Err, lockctx.ErrLost)
			_, err := peerClose.do(e.holder, "it")
			require.ErrorIs(t, err, lockctx.ErrLost)
		}
		row, _ := rows.look(e.key)
		require.Equal(t, g.lk.Token(), row.token)
		require.NoError(t, g.lk.Close())
	}
	return took
}

func TestAStoppedWaiterKeepsNobodyFromAReleasedLease(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		holder, next, key, watch := open(t, view), open(t, view), dbtest.Key(t), view.Open(t)
		first := startPeer(t, view)
		lk := acquire(t, holder, key, lockctx.Lease(lasting))
		stopped := arrivals(t, view, watch, key, []*process{first}, []int{0})[0]
		granted := queueUp(t, next, key, lockctx.Lease(lasting))
		require.Eventually(t, func() bool { return waitersAtServer(t, view, watch) == 2 }, promptly, time.Millisecond)
		first.stop()
		began := time.Now()
		require.NoError(t, lk.Close())
		g := within(t, granted, promptly, "the turn of the waiter that has not stopped")
		require.NoError(t, g.err)
		t.Logf("after %v", g.at.Sub(began))

		first.signal(syscall.SIGCONT)
		select {
		case d := <-stopped:
			t.Fatalf("two have it: %+v", d)
		case <-time.After(200 * time.Millisecond):
		}
		require.NoError(t, g.lk.Close())
		d := within(t, stopped, promptly, "the turn of the one that goes on")
		require.NoError(t, d.Err)
		require.Greater(t, d.R.Token, g.lk.Token())
		peerClose.must(first, "it")
	})
}

func TestAKilledWaiterKeepsNobodyFromAReleasedLease(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		holder, next, key, watch := open(t, view), open(t, view), dbtest.Key(t), view.Open(t)
		first := startPeer(t, view)
		lk := acquire(t, holder, key, lockctx.Lease(lasting))
		arrivals(t, view, watch, key, []*process{first}, []int{0})
		granted := queueUp(t, next, key, lockctx.Lease(lasting))
		require.Eventually(t, func() bool { return waitersAtServer(t, view, watch) == 2 }, promptly, time.Millisecond)
		first.signal(syscall.SIGKILL)
		require.NoError(t, lk.Close())
		g := within(t, granted, promptly, "the turn of the waiter that lives")
		require.NoError(t, g.err)
		require.NoError(t, g.lk.Close())
	})
}
