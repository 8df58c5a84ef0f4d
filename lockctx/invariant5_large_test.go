package lockctx_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// huge is more than lockdb reads ahead of a result set and sockets buffer.
const huge = 100 << 20

func TestI5_AResultSetTooLargeToReadAheadThatNobodyReadsIsALossBeforeAnotherIsGranted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, other := open(t, view, driver.WithTTL(idleTTL)), open(t, view)
		lk := acquire(t, db, dbtest.Key(t))
		rows, err := db.QueryContext(lk.Context(), manyRows(s, huge))
		require.NoError(t, err)
		defer func() { _ = rows.Close() }()
		require.True(t, rows.Next())
		left := time.Now()
		atGrant := async(func() error {
			next, err := lockctx.Acquire(testCtx(t), other, lk.Key())
			if err != nil {
				return err
			}
			defer func() { _ = next.Close() }()
			return lk.Context().Err()
		})
		err = within(t, atGrant, 3*promptly, "the grant to the other")
		t.Logf("granted after %v", time.Since(left))
		require.ErrorIs(t, err, lockctx.ErrLost, "what the holder's context said when the other was granted")
		require.ErrorContains(t, err, "without being read")
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}

func TestI6_AHugeResultSetThatIsReadSlowlyDoesNotCostTheLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db := open(t, view, driver.WithTTL(2*idleTTL))
		lk := acquire(t, db, dbtest.Key(t))
		rows, err := db.QueryContext(lk.Context(), manyRows(s, huge))
		require.NoError(t, err)
		defer func() { _ = rows.Close() }()
		n, want, pause := 0, huge/rowSize, 2*idleTTL/100
		for rows.Next() {
			if n++; n%(want/100) == 0 {
				time.Sleep(pause)
			}
		}
		require.NoError(t, rows.Err())
		require.Equal(t, want, n)
		require.NoError(t, lk.Close())
	})
}
