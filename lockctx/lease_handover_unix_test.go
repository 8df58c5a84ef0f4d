//go:build unix

package lockctx_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

type turnsArgs struct {
	Key   string
	Turns int
}

// turn is a tenure from the grant to the moment at which its release began.
type turn struct {
	Process     int
	Token       int64
	Began, Ends time.Time
}

// takeTurns has a peer take the lease again and again, and keep it until the other one must have come to wait.
var takeTurns = newJob("turns", func(p *peer, a turnsArgs) (turns []turn, err error) {
	for range a.Turns {
		lk, err := lockctx.Acquire(context.Background(), p.db, a.Key, lockctx.Lease(lasting))
		if err != nil {
			return nil, err
		}
		one := turn{Token: lk.Token(), Began: time.Now()}
		time.Sleep(4 * time.Millisecond)
		one.Ends = time.Now()
		if err := lk.Close(); err != nil {
			return nil, err
		}
		turns = append(turns, one)
	}
	return turns, nil
})

func requireHandOver(t *testing.T, s *dbtest.Server, p50 time.Duration) {
	const each = 100
	view := s.CreateDatabase(t)
	args := turnsArgs{Key: dbtest.Key(t), Turns: each}
	peers := []*process{startPeer(t, view), startPeer(t, view)}
	for _, p := range peers { // dial, and create the table
		_, err := takeTurns.do(p, turnsArgs{Key: dbtest.Key(t), Turns: 1})
		require.NoError(t, err)
	}
	runs := []<-chan done[[]turn]{takeTurns.begin(peers[0], args), takeTurns.begin(peers[1], args)}
	var turns []turn
	for i, run := range runs {
		d := within(t, run, 3*promptly, "the end of the turns")
		require.NoError(t, d.Err)
		for _, one := range d.R {
			one.Process = i
			turns = append(turns, one)
		}
	}
	slices.SortFunc(turns, func(a, b turn) int { return a.Began.Compare(b.Began) })
	var took []time.Duration
	for i, next := range turns[1:] {
		last := turns[i]
		require.Less(t, last.Token, next.Token)
		require.False(t, next.Began.Before(last.Ends), "two had it")
		if next.Process != last.Process {
			took = append(took, next.Began.Sub(last.Ends))
		}
	}
	slices.Sort(took)
	t.Logf("%d of %d releases handed the lease over to the other process: p50 %v, p99 %v, at most %v",
		len(took), len(turns)-1, took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	require.Greater(t, len(took), each)
	require.LessOrEqual(t, took[len(took)/2], p50)
}

func TestAReleaseHandsALeaseOverToAnotherProcessAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) { requireHandOver(t, s, 50*time.Millisecond) })
}

func TestThroughPgBouncerALeaseIsHandedOverSoon(t *testing.T) {
	s := ownPgBouncer(t)
	view := s.CreateDatabase(t)
	db, key, peer := open(t, view), dbtest.Key(t), startPeer(t, view)
	var took []time.Duration
	for range 20 {
		lk := acquire(t, db, key, lockctx.Lease(lasting))
		next := peerAcquire.begin(peer, leaseArgs{Name: "it", Keys: []string{key}, TTL: lasting})
		time.Sleep(50 * time.Millisecond) // there is no telling from outside that it waits
		began := time.Now()
		require.NoError(t, lk.Close())
		d := within(t, next, promptly, "the other's turn")
		require.NoError(t, d.Err)
		took = append(took, d.R.At.Sub(began))
		peerClose.must(peer, "it")
	}
	slices.Sort(took)
	t.Logf("p50 %v, at most %v", took[len(took)/2], took[len(took)-1])
	require.LessOrEqual(t, took[len(took)/2], 500*time.Millisecond)
}
