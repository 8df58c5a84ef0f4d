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

// outage is a time during which the holder of a lease cannot reach the server, while others can.
type outage struct {
	name  string
	share float64 // of the TTL
	begin func(*dbtest.Relay)
	// forGood: what was connected stays silent when the outage is over, and open at the server.
	forGood bool

	relay *dbtest.Relay
	db    *sql.DB
	other *sql.DB
	key   string
	lk    *lockctx.Lock
	ended <-chan time.Time
	next  <-chan grant
	began time.Time
	stood *standstill
}

// outages are those of each kind for that share of the TTL.
func outages(share float64) []*outage {
	return []*outage{
		{name: "the network is silent", share: share, begin: (*dbtest.Relay).Cut},
		{name: "connections stay silent", share: share, begin: (*dbtest.Relay).CutForGood, forGood: true},
		{name: "the answers are lost", share: share, begin: (*dbtest.Relay).CutReplies},
	}
}

// suffer has leases held and waited for through outages that begin at the same time, and returns when
// they are over.
func suffer(t *testing.T, s *dbtest.Server, ttl time.Duration, all []*outage) *leaseTable {
	t.Helper()
	view := s.CreateDatabase(t)
	for _, o := range all {
		o.relay, o.stood = view.Relay(t), watchStandstill(t)
		o.db, o.other, o.key = openDSN(t, o.relay.DSN()), open(t, view), dbtest.Key(t)
		for _, db := range []*sql.DB{o.db, o.other} { // which leaves the time of the lease for itself
			require.NoError(t, acquire(t, db, o.key, lockctx.Lease(time.Minute)).Close())
		}
	}
	holdAll(t, ttl, all)
	over := make(chan struct{}, len(all))
	for _, o := range all {
		o.began = time.Now()
		o.begin(o.relay)
		time.AfterFunc(time.Duration(o.share*float64(ttl)), func() {
			o.relay.Heal()
			over <- struct{}{}
		})
	}
	for range all {
		within(t, over, promptly, "the end of an outage")
	}
	return newLeaseTable(t, view)
}

// holdAll returns when all hold their leases and are waited for, for some renewals. A machine too busy for that gets
// further tries.
func holdAll(t *testing.T, ttl time.Duration, all []*outage) {
	t.Helper()
	for try := 1; ; try++ {
		lost := 0
		for _, o := range all {
			o.lk = acquire(t, o.db, o.key, lockctx.Lease(ttl))
			o.ended = endOf(o.lk.Context())
			o.next = async(func() grant {
				lk, err := lockctx.Acquire(testCtx(t), o.other, o.key, lockctx.Lease(ttl))
				return grant{lk, err, time.Now()}
			})
		}
		time.Sleep(ttl / 2)
		for _, o := range all {
			if o.lk.Err() != nil {
				lost++
			}
		}
		if lost == 0 {
			return
		}
		require.Less(t, try, 4, "leases are lost without an outage")
		for _, o := range all {
			_ = o.lk.Close()
			next := within(t, o.next, promptly, o.name)
			require.NoError(t, next.err, o.name)
			_ = next.lk.Close()
		}
	}
}

// requireKept checks that the lease outlived the outage, and that its release is heard.
func (o *outage) requireKept(t *testing.T, rows *leaseTable, ttl time.Duration) {
	t.Helper()
	require.NoError(t, o.lk.Err(), o.name)
	require.True(t, rows.isHeld(o.key), o.name)
	select {
	case g := <-o.next:
		t.Fatalf("%s: two hold the lease, or one gave up: %v", o.name, g.err)
	default:
	}
	closing := time.Now()
	require.NoError(t, o.lk.Close(), o.name)
	closed := time.Now()
	next := within(t, o.next, promptly, o.name)
	require.NoError(t, next.err, o.name)
	t.Logf("%s for %v of the TTL: kept; Close took %v, the next one had it %v after", o.name, o.share,
		closed.Sub(closing), next.at.Sub(closed))
	wake := 1500*time.Millisecond + o.stood.time()
	if o.forGood { // the server does not know that who had the companion is gone
		wake += ttl
	}
	require.Less(t, closed.Sub(closing), ttl+time.Second+o.stood.time(), o.name)
	require.Less(t, next.at.Sub(closed), wake, o.name)
	require.NoError(t, next.lk.Close(), o.name)
	o.requireHandOver(t, ttl)
}

// requireLost checks that who had the lease knew of its end before another one had it.
func (o *outage) requireLost(t *testing.T, rows *leaseTable, ttl time.Duration) {
	t.Helper()
	next := within(t, o.next, promptly, o.name)
	require.NoError(t, next.err, o.name)
	end := within(t, o.ended, promptly, o.name)
	t.Logf("%s for %v of the TTL: told after %v, the other granted after %v", o.name, o.share, end.Sub(o.began), next.at.Sub(o.began))
	o.stood.requireToldFirst(t, end, next.at, ttl, o.name)
	limit := ttl + 2*time.Second + o.stood.time()
	if !o.forGood { // a renewal without an answer may have been done, or be done when the network is back
		limit += ttl * 9 / 10
	}
	require.LessOrEqual(t, next.at.Sub(o.began), limit, o.name)
	require.ErrorIs(t, context.Cause(o.lk.Context()), lockctx.ErrLost, o.name)
	row, _ := rows.look(o.key)
	require.ErrorIs(t, o.lk.Close(), lockctx.ErrLost, o.name)
	after, _ := rows.look(o.key)
	require.Equal(t, row.owner, after.owner, o.name)
	require.Equal(t, next.lk.Token(), after.token, "%s: what was on its way changed the row", o.name)
	require.Positive(t, after.left, o.name)
	require.NoError(t, next.lk.Err(), o.name)
	require.NoError(t, next.lk.Close(), o.name)
	o.requireHandOver(t, ttl)
}

// requireHandOver checks that the one who was cut off can hold the lease again, and wakes another one.
func (o *outage) requireHandOver(t *testing.T, ttl time.Duration) {
	t.Helper()
	lk := acquire(t, o.db, o.key, lockctx.Lease(ttl))
	waiter := waitForLease(testCtx(t), t, o.other, o.key, lockctx.Lease(ttl))
	require.NoError(t, lk.Close(), o.name)
	closed := time.Now()
	next := within(t, waiter, promptly, o.name)
	require.NoError(t, next.err, o.name)
	if !o.forGood {
		require.Less(t, next.at.Sub(closed), 1500*time.Millisecond+o.stood.time(), o.name)
	}
	require.NoError(t, next.lk.Close(), o.name)
}

func TestAnOutageCostsALeaseNoMoreThanItMust(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *dbtest.Server){
		"of less than a third of the TTL costs no lease": func(t *testing.T, s *dbtest.Server) {
			const ttl = 6 * time.Second
			all := outages(0.3)
			rows := suffer(t, s, ttl, all)
			for _, o := range all {
				if o.lk.Err() != nil && o.stood.time() > ttl/12 { // as good as a longer outage
					o.requireLost(t, rows, ttl)
				} else {
					o.requireKept(t, rows, ttl)
				}
			}
		},
		"of nearly the TTL never makes two holders": func(t *testing.T, s *dbtest.Server) {
			const ttl = 3 * time.Second
			all := outages(0.9)
			rows := suffer(t, s, ttl, all)
			for _, o := range all {
				if o.lk.Err() == nil {
					o.requireKept(t, rows, ttl)
				} else {
					o.requireLost(t, rows, ttl)
				}
			}
		},
		"beyond the TTL costs the lease before another has it": func(t *testing.T, s *dbtest.Server) {
			const ttl = 3 * time.Second
			all := outages(1.5)
			rows := suffer(t, s, ttl, all)
			for _, o := range all {
				o.requireLost(t, rows, ttl)
			}
		},
		"that nobody noticed does not fail the next claim": func(t *testing.T, s *dbtest.Server) {
			view := s.CreateDatabase(t)
			relay, key := view.Relay(t), dbtest.Key(t)
			db := openDSN(t, relay.DSN())
			require.NoError(t, acquire(t, db, key, lockctx.Lease(time.Minute)).Close())
			relay.CutForGood()
			relay.Heal()
			began := time.Now()
			lk := acquire(t, db, key, lockctx.Lease(time.Minute))
			t.Logf("it took %v", time.Since(began))
			require.NoError(t, lk.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				t.Parallel()
				test(t, s)
			})
		})
	}
}
