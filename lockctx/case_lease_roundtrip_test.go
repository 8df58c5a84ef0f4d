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

// roundTrips is how many the call takes beyond the others, on a network where each takes so long that
// nothing else counts: the quickest of several runs.
func roundTrips(t *testing.T, rtt time.Duration, call func() error) float64 {
	t.Helper()
	quickest := time.Hour
	for range 4 {
		start := time.Now()
		require.NoError(t, call())
		quickest = min(quickest, time.Since(start))
	}
	return float64(quickest) / float64(rtt)
}

func TestAFenceCostsNoRoundTripExceptOneOnMySQL(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		relay, id := view.Relay(t), 0
		const rtt = 40 * time.Millisecond
		relay.SetDelay(rtt / 2)
		bare, db := openBare(t, view, relay.DSN()), openDSN(t, relay.DSN())
		for _, pool := range []*sql.DB{bare, db} {
			pool.SetMaxOpenConns(1) // one dials once
		}
		write := func(ctx context.Context, db *sql.DB) func() error {
			return func() error {
				id++
				return inTx(ctx, db, func(tx *sql.Tx) error { return tab.insert(context.Background(), tx, id) })
			}
		}
		want := roundTrips(t, rtt, write(testCtx(t), bare))
		require.InDelta(t, want, roundTrips(t, rtt, write(testCtx(t), db)), 0.5, "never a lease")

		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
		require.InDelta(t, want, roundTrips(t, rtt, write(testCtx(t), db)), 0.5, "a lease elsewhere")
		more := 0.0
		if view.Kind() == dbtest.MySQL {
			more = 1
		}
		got := roundTrips(t, rtt, write(lk.Context(), db))
		t.Logf("%.2f round trips, %.2f under a lease", want, got)
		require.InDelta(t, want+more, got, 0.5, "under the lease")

		inner, err := lockctx.Acquire(lk.Context(), db, dbtest.Key(t), lockctx.Lease(unrenewed))
		require.NoError(t, err)
		require.InDelta(t, want+more, roundTrips(t, rtt, write(inner.Context(), db)), 0.5, "under two leases")
		require.NoError(t, inner.Close())
		require.NoError(t, lk.Close())
	})
}
