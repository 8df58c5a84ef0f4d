package lockctx_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// slowRows is a query whose first rows come at once and whose last takes that many seconds.
func slowRows(s *dbtest.Server, seconds int) string {
	filler := "repeat('x', 20000)" // servers send what fills their buffers
	if s.IsMySQL() {
		query := ""
		for range 5 {
			query += "SELECT 0 AS n, " + filler + " AS t UNION ALL "
		}
		return query + sleepQuery(s, float64(seconds)) + ", ''"
	}
	return fmt.Sprintf("SELECT CASE WHEN n = 6 THEN (SELECT 0 FROM pg_sleep(%d)) ELSE 0 END, %s FROM generate_series(1, 6) AS n", seconds, filler)
}

func TestTheEndOfItsContextEndsAResultSetThatTheServerIsSlowToSend(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		ctx, cancel := context.WithTimeout(lk.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		rows, err := db.QueryContext(ctx, slowRows(s, 20))
		require.NoError(t, err)
		read := async(func() error {
			for rows.Next() { //nolint:revive // to its end
			}
			return rows.Err()
		})
		err = within(t, read, promptly, "the end of the result set")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(began), promptly)
		requireLost(t, lk) // as with any statement whose context ends while it runs
		require.ErrorContains(t, lk.Err(), "context ended")
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}

func TestTheEndOfItsContextClosesAResultSetThatNobodyReadsAtNoCost(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		ctx, cancel := context.WithCancel(lk.Context())
		rows, err := db.QueryContext(ctx, manyRows(s, 100*rowSize))
		require.NoError(t, err)
		require.True(t, rows.Next())
		cancel()
		require.NoError(t, db.PingContext(lk.Context()), "it waits until database/sql has closed the result set")
		require.False(t, rows.Next())
		require.ErrorIs(t, rows.Err(), context.Canceled)
		require.NoError(t, lk.Close())
	})
}

func TestAcquireSurvivesASilentNetworkUnderItsIdleSession(t *testing.T) {
	t.Parallel() // it waits for most of its time
	const ttl = 2 * time.Second
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		relay := s.Relay(t)
		db, key := openDSN(t, relay.DSN(), driver.WithTTL(ttl)), dbtest.Key(t)
		require.NoError(t, acquireOnce(t, db, key).Close()) // its session is idle now
		relay.CutForGood()
		relay.Heal()
		ctx := testCtx(t)
		got := async(func() error {
			lk, err := lockctx.Acquire(ctx, db, key)
			if err == nil {
				err = lk.Close()
			}
			return err
		})
		require.NoError(t, within(t, got, 2*promptly, "Acquire, on another session"))
	})
}

func TestAWaiterSurvivesASilentNetworkUnderTheSessionThatWaitsForHim(t *testing.T) {
	t.Parallel() // it waits for most of its time
	const ttl = 2 * time.Second
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		relay := view.Relay(t)
		db, key, out := openDSN(t, relay.DSN(), driver.WithTTL(ttl)), dbtest.Key(t), newOutsider(t, view)
		require.True(t, out.take(key))
		granted := waitFor(testCtx(t), t, db, key)
		requireWaitsAtServer(t, view)
		relay.CutForGood()
		relay.Heal()
		out.release(key)
		next := within(t, granted, 2*promptly, "the grant")
		require.NoError(t, next.err)
		require.NoError(t, next.lk.Close())
	})
}

func TestTheRestOfAResultSetWhoseContextHasEndedIsNotWaitedForLong(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		ctx, cancel := context.WithCancel(lk.Context())
		rows, err := db.QueryContext(ctx, slowRows(s, 20))
		require.NoError(t, err)
		require.True(t, rows.Next())
		cancel()
		within(t, endOf(lk.Context()), promptly, "the end of the context")
		require.False(t, rows.Next())
		require.ErrorIs(t, rows.Err(), context.Canceled)
		requireLost(t, lk)
		require.ErrorContains(t, lk.Err(), "context ended")
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}
