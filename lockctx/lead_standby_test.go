package lockctx_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// Who waits to lead has been served before, so that an error is no reason to give up for good: a switch-over to another
// server is not to be survived by the leader alone.
func TestLeadGoesOnWhenTheServerRefusesOneWhoWaits(t *testing.T) {
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
		const away, back = "ALTER TABLE lockdb_lease RENAME COLUMN owner TO other", "ALTER TABLE lockdb_lease RENAME COLUMN other TO owner"
		rows.exec(away, away)
		require.Eventually(t, func() bool { return waitersHere(t, other, key) == 0 }, promptly, time.Millisecond, "it has not been refused")
		rows.exec(back, back)
		require.NoError(t, last.Close())
		select {
		case <-leads:
		case err := <-ended:
			t.Fatal("Lead gave up: ", err)
		}
		stepDown()
		require.ErrorIs(t, within(t, ended, promptly, "the end"), context.Canceled)
	})
}
