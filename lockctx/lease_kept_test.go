package lockctx_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// A renewal leaves a lease out whose row a COMMIT keeps. There may be no moment at which none does.
func TestALeaseIsKeptAlthoughTransactionsUnderItCommitAllTheTime(t *testing.T) {
	const ttl, committers = 6 * time.Second, 24
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db := open(t, view)
		db.SetMaxIdleConns(committers)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(ttl))
		until := time.Now().Add(ttl * 4 / 3)
		var commits atomic.Int64
		together(t, committers, func(int) error {
			for time.Now().Before(until) {
				tx, err := db.BeginTx(lk.Context(), nil)
				if err == nil {
					err = tx.Commit()
				}
				if err != nil {
					return fmt.Errorf("after %d commits: %w (%w)", commits.Load(), err, lk.Err())
				}
				commits.Add(1)
			}
			return nil
		})
		require.NoError(t, lk.Close())
	})
}

func TestATransactionThatKeepsTheRowOfOneLeaseCostsNoOther(t *testing.T) {
	t.Parallel() // it waits for most of its time
	for _, c := range []struct {
		ttl    time.Duration
		leases int
	}{
		{3 * time.Second, 2}, // a renewal is given up before the server gives up waiting for the row
		{6 * time.Second, 100},
	} {
		t.Run(fmt.Sprintf("%d for %v", c.leases, c.ttl), func(t *testing.T) {
			t.Parallel()
			eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
				t.Parallel()
				view := s.CreateDatabase(t)
				rows := newLeaseTable(t, view)
				var lost error
				for range 3 { // times in which the machine may stall, for which so short a lease leaves no time
					if lost = keepRowOfOne(t, view, rows, c.ttl, c.leases); lost == nil {
						break
					}
					t.Log(lost)
				}
				require.NoError(t, lost)
			})
		})
	}
}

// keepRowOfOne has a transaction keep the row of one of the leases, until that is lost, and tells of the loss of another.
func keepRowOfOne(t *testing.T, view *dbtest.Server, rows *leaseTable, ttl time.Duration, n int) (lost error) {
	t.Helper()
	db := open(t, view)
	leases := make([]*lockctx.Lock, n)
	for i := range leases {
		leases[i] = acquire(t, db, fmt.Sprintf("%s%03d", dbtest.Key(t), i), lockctx.Lease(ttl))
	}
	letGo := rows.keepRows(leases[0].Key())
	time.Sleep(ttl * 3 / 2)
	letGo()
	requireLost(t, leases[0])
	require.ErrorIs(t, leases[0].Close(), lockctx.ErrLost)
	for _, lk := range leases[1:] {
		lost = errors.Join(lost, lk.Close())
	}
	return lost
}
