package lockctx_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// A dialler has a timer of its own for the context's deadline.
func TestADeadlineThatPassesWhileALeaseIsAskedForIsWhatTheErrorTells(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		key, rows := dbtest.Key(t), newLeaseTable(t, view)
		require.NoError(t, acquire(t, open(t, view), key, lockctx.Lease(forLong)).Close()) // creates the table
		for range 100 {
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

func TestATimeoutThatPassesBeforeTheTableOfLeasesAnswersIsErrNotAcquired(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		key, rows := dbtest.Key(t), newLeaseTable(t, view)
		require.NoError(t, acquire(t, open(t, view), key, lockctx.Lease(forLong)).Close()) // creates the table
		db, _ := openAs(t, view, func(query string) (string, error) {
			if strings.Contains(query, "information_schema.COLUMNS") || strings.Contains(query, "pg_attribute") {
				time.Sleep(500 * time.Millisecond) // longer than the grace that a statement has
			}
			return query, nil
		})
		_, err := lockctx.Acquire(testCtx(t), db, key, lockctx.Lease(forLong), lockctx.WithTimeout(10*time.Millisecond))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, rows.isHeld(key))
		lk := acquire(t, db, key, lockctx.Lease(forLong))
		require.NoError(t, lk.Close())
	})
}
