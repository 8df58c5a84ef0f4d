package lockctx_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// A holder that is stopped between the fence and COMMIT keeps the row: nobody may have the lease then, however long its
// time has been over. Those who wait for it wait on.
func TestWhoWaitsForALeaseWaitsAsLongAsAFenceKeepsItsRow(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, other, third, bare := open(t, view), open(t, view), open(t, view), view.Open(t)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(1500*time.Millisecond))
		tx, err := bare.Begin()
		require.NoError(t, err)
		require.NoError(t, lockctx.Fence(lk.Context(), tx))
		if !view.IsMySQL() { // a renewal does not mind a fence there
			_, err := tx.Exec("SELECT 1 FROM lockdb_lease FOR UPDATE")
			require.NoError(t, err)
		}
		requireLost(t, lk)
		newLeaseTable(t, view).awaitExpiry(lk.Key())

		waiter := async(func() grant {
			lk, err := lockctx.Acquire(testCtx(t), other, lk.Key(), lockctx.Lease(unrenewed))
			return grant{lk, err, time.Now()}
		})
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		_, err = lockctx.Acquire(ctx, third, lk.Key(), lockctx.Lease(unrenewed))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(begun), 4*time.Second)
		select {
		case g := <-waiter:
			t.Fatalf("while the row was locked: %v", g.err)
		case <-time.After(4500 * time.Millisecond):
		}
		require.NoError(t, tx.Commit())
		g := within(t, waiter, promptly, "the lease")
		require.NoError(t, g.err)
		next := waitIn(testCtx(t), t, "(*wait).wait", third, lk.Key(), lockctx.Lease(unrenewed))
		requireWaitsAtServer(t, view)
		stood := watchStandstill(t)
		begun = time.Now()
		require.NoError(t, g.lk.Close())
		g = within(t, next, promptly, "the lease")
		require.NoError(t, g.err)
		require.Less(t, g.at.Sub(begun), 700*time.Millisecond+stood.time(), "nobody woke him")
		require.NoError(t, g.lk.Close())
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}

// awaitExpiry waits until the row has expired.
func (lt *leaseTable) awaitExpiry(key string) {
	lt.t.Helper()
	require.Eventually(lt.t, func() bool { return !lt.isHeld(key) }, promptly, 5*time.Millisecond)
}
