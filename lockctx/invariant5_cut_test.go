package lockctx_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// cutOff has a client hold a lock under each of the occupations, and others wait for them at the
// server. It then breaks the network below the client as told, and checks that he knows of each loss
// before the other is granted, which is within limit.
func cutOff(t *testing.T, s *dbtest.Server, ttl, limit time.Duration, occupations []occupation, breakOff func(*dbtest.Relay)) {
	t.Helper()
	view := s.CreateDatabase(t)
	relay := view.Relay(t)
	db, other := openDSN(t, relay.DSN(), driver.WithTTL(ttl)), open(t, view, driver.WithTTL(ttl))
	held := make([]*lockctx.Lock, len(occupations))
	ended := make([]<-chan time.Time, len(occupations))
	granted := make([]<-chan grant, len(occupations))
	for try := 1; try == 1 || lost(held); try++ {
		require.Less(t, try, 5, "locks are lost without a cut")
		for i, o := range occupations {
			if held[i] != nil { // a machine too busy for the TTL gets another try
				_ = held[i].Close()
				next := within(t, granted[i], promptly, o.name)
				require.NoError(t, next.err, o.name)
				require.NoError(t, next.lk.Close(), o.name)
			}
			held[i] = acquire(t, db, dbtest.Key(t))
			o.begin(t, s, db, held[i])
			ended[i] = endOf(held[i].Context())
			granted[i] = waitFor(testCtx(t), t, other, held[i].Key())
		}
	}
	requireWaitsAtServer(t, view)
	stood := watchStandstill(t)
	breakOff(relay)
	cut := time.Now()
	for i, o := range occupations {
		next := within(t, granted[i], limit+promptly, o.name)
		require.NoError(t, next.err, o.name)
		require.NoError(t, next.lk.Close(), o.name)
		end := within(t, ended[i], promptly, o.name)
		t.Logf("%s: told after %v, the other granted after %v", o.name, end.Sub(cut), next.at.Sub(cut))
		stood.requireToldFirst(t, end, next.at, ttl, o.name)
		require.LessOrEqual(t, next.at.Sub(cut), limit+stood.time(), o.name)
		require.ErrorIs(t, held[i].Context().Err(), lockctx.ErrLost, o.name)
		require.ErrorIs(t, held[i].Close(), lockctx.ErrLost, o.name)
	}
}

// lost tells whether any of the locks is.
func lost(locks []*lockctx.Lock) bool {
	return slices.ContainsFunc(locks, func(lk *lockctx.Lock) bool { return lk.Err() != nil })
}

func TestI5_ACutOffClientKnowsOfItsLossBeforeAnotherIsGranted(t *testing.T) {
	const ttl = 3 * time.Second
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		// A large result set keeps the server busy: see the test with the real network's end.
		cutOff(t, s, ttl, ttl+time.Second, occupations[:3], (*dbtest.Relay).CutForGood)
	})
}
