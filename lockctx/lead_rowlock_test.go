package lockctx_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// Who waits to lead, and has not led yet, must not give up since the last leader's transaction keeps the row for longer
// than a statement is tried.
func TestLeadWaitsAsLongAsATransactionKeepsTheRow(t *testing.T) {
	t.Parallel() // it waits for most of its time
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, other, key, rows := open(t, view), open(t, view), dbtest.Key(t), newLeaseTable(t, view)
		last := acquire(t, db, key, lockctx.Lease(forLong))
		ctx, stepDown := context.WithCancel(testCtx(t))
		leads := make(chan struct{})
		ended := async(func() error {
			return lockctx.Lead(ctx, other, key, func(ctx context.Context) error {
				close(leads)
				<-ctx.Done()
				return nil
			}, lockctx.Lease(forLong))
		})
		require.Eventually(t, func() bool { return waitersHere(t, other, key) > 0 }, promptly, time.Millisecond)
		rows.expire(key)
		letGo := rows.keepRows(key)
		select {
		case err := <-ended:
			t.Error("while the row was locked: ", err)
		case <-time.After(15 * time.Second):
		}
		letGo()
		within(t, leads, promptly, "the turn to lead")
		stepDown()
		require.ErrorIs(t, within(t, ended, promptly, "the end"), context.Canceled)
		require.ErrorIs(t, last.Close(), lockctx.ErrLost)
	})
}
