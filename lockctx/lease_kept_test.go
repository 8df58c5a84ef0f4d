package lockctx_test

import (
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
	const ttl, committers = 3 * time.Second, 24
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		db := open(t, view)
		db.SetMaxIdleConns(committers)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(ttl))
		until := time.Now().Add(2 * ttl)
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
	for _, c := range []struct {
		ttl    time.Duration
		leases int
	}{
		{3 * time.Second, 2}, // a renewal is given up before the server gives up waiting for the row
		{10 * time.Second, 100},
	} {
		t.Run(fmt.Sprintf("%d for %v", c.leases, c.ttl), func(t *testing.T) {
			eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
				t.Parallel()
				view := s.CreateDatabase(t)
				db, rows := open(t, view), newLeaseTable(t, view)
				leases := make([]*lockctx.Lock, c.leases)
				for i := range leases {
					leases[i] = acquire(t, db, fmt.Sprintf("%s%03d", dbtest.Key(t), i), lockctx.Lease(c.ttl))
				}
				letGo := rows.keepRows(leases[0].Key())
				time.Sleep(c.ttl * 3 / 2)
				letGo()
				requireLost(t, leases[0])
				for _, lk := range leases[1:] {
					require.NoError(t, lk.Close())
				}
				require.ErrorIs(t, leases[0].Close(), lockctx.ErrLost)
			})
		})
	}
}
