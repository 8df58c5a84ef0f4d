package lockctx_test

import (
	"context"
	"database/sql"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// rtt is a round trip's time on a network where nothing else counts.
const rtt = 40 * time.Millisecond

// costing is a call and how many round trips it is to take beyond those of the first in a list.
type costing struct {
	name string
	more int
	call func() error
}

// requireRoundTrips compares the calls by their quickest of several runs each, for as long as they do not agree:
// what else goes on on the machine can only make them slower.
func requireRoundTrips(t *testing.T, calls ...costing) {
	t.Helper()
	quickest := make([]float64, len(calls))
	agree := func() bool {
		for i, c := range calls {
			if math.Abs(quickest[i]-quickest[0]-float64(c.more)) > 0.4 {
				return false
			}
		}
		return true
	}
	for round := 0; round < 2 || !agree() && round < 40; round++ {
		for i, c := range calls {
			start := time.Now()
			require.NoError(t, c.call(), c.name)
			took := float64(time.Since(start)) / float64(rtt)
			if round == 0 || took < quickest[i] {
				quickest[i] = took
			}
		}
	}
	for i, c := range calls {
		t.Logf("%s: %.2f round trips", c.name, quickest[i])
	}
	require.True(t, agree(), "a call takes more or fewer round trips than it is to take")
}

func TestAFenceCostsNoRoundTripExceptOneOnMySQL(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		relay, id := view.Relay(t), 0
		relay.SetDelay(rtt / 2)
		bare, db, leased := openBare(t, view, relay.DSN()), openDSN(t, relay.DSN()), openDSN(t, relay.DSN())
		for _, pool := range []*sql.DB{bare, db, leased} {
			pool.SetMaxOpenConns(1)
		}
		write := func(ctx context.Context, db *sql.DB) func() error {
			return func() error {
				id++
				return inTx(ctx, db, func(tx *sql.Tx) error { return tab.insert(context.Background(), tx, id) })
			}
		}
		lk := acquire(t, leased, dbtest.Key(t), lockctx.Lease(unrenewed))
		inner, err := lockctx.Acquire(lk.Context(), leased, dbtest.Key(t), lockctx.Lease(unrenewed))
		require.NoError(t, err)
		more := 0
		if view.Kind() == dbtest.MySQL {
			more = 1
		}
		requireRoundTrips(t,
			costing{"the driver", 0, write(testCtx(t), bare)},
			costing{"never a lease", 0, write(testCtx(t), db)},
			costing{"a lease elsewhere", 0, write(testCtx(t), leased)},
			costing{"under a lease", more, write(lk.Context(), leased)},
			costing{"under two leases", more, write(inner.Context(), leased)},
		)
		require.NoError(t, inner.Close())
		require.NoError(t, lk.Close())
	})
}

func TestFenceByHandIsARoundTrip(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, _ *table) {
		relay := view.Relay(t)
		relay.SetDelay(rtt / 2)
		bare, db := openBare(t, view, relay.DSN()), open(t, view)
		bare.SetMaxOpenConns(1)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
		commit := func(then func(*sql.Tx) error) func() error {
			return func() error { return inTx(testCtx(t), bare, then) }
		}
		requireRoundTrips(t,
			costing{"without", 0, commit(func(*sql.Tx) error { return nil })},
			costing{"with Fence", 1, commit(func(tx *sql.Tx) error { return lockctx.Fence(lk.Context(), tx) })},
		)
		require.NoError(t, lk.Close())
	})
}
