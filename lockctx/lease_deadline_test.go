package lockctx_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// A dialler has a timer of its own for the context's deadline.
func TestADeadlineThatPassesWhileALeaseIsAskedForIsWhatTheErrorTells(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		key, rows := dbtest.Key(t), newLeaseTable(t, view)
		require.NoError(t, acquire(t, open(t, view), key, lockctx.Lease(forLong)).Close()) // creates the table
		for range 150 {
			db := open(t, view)
			ctx, cancel := context.WithTimeout(context.Background(), rand.N(3*time.Millisecond))
			lk, err := lockctx.Acquire(ctx, db, key, lockctx.Lease(forLong))
			cancel()
			if err == nil {
				require.NoError(t, lk.Close())
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			require.NoError(t, db.Close())
			require.False(t, rows.isHeld(key))
		}
	})
}
