package lockctx_test

import (
	"context"
	sqldriver "database/sql/driver"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

var (
	leaseSoak = flag.Duration("lease.soak", 5*time.Second, "how long the many leases of the soak test are kept")
	leaseMany = flag.Int("lease.many", 1200, "how many these are")
)

// renewalCounter counts the renewals that lockdb sends.
type renewalCounter struct {
	sqlmw.NullInterceptor
	n atomic.Int64
}

func (c *renewalCounter) see(query string) {
	if strings.Contains(query, "UPDATE (VALUES") || strings.Contains(query, "UPDATE (WITH v") || strings.Contains(query, "WITH r AS (UPDATE") {
		c.n.Add(1)
	}
}

func (c *renewalCounter) ConnExecContext(ctx context.Context, dc sqldriver.ExecerContext, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	c.see(query)
	return dc.ExecContext(ctx, query, args)
}

func (c *renewalCounter) ConnQueryContext(ctx context.Context, dc sqldriver.QueryerContext, query string, args []sqldriver.NamedValue) (context.Context, sqldriver.Rows, error) {
	c.see(query)
	rows, err := dc.QueryContext(ctx, query, args)
	return ctx, rows, err
}

// inParallel calls f for each of n on so many goroutines.
func inParallel(n, goroutines int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

func TestManyLeasesAreKeptWhileThePoolIsBusy(t *testing.T) {
	const (
		ttl      = 10 * time.Second
		interval = ttl / 3
		slots    = 4
	)
	leases := *leaseMany
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		counter := &renewalCounter{}
		db, rows, key := open(t, view, driver.WithInterceptor(counter)), newLeaseTable(t, view), dbtest.Key(t)
		db.SetMaxOpenConns(slots)
		busy, idle := context.WithCancel(context.Background())
		var pool sync.WaitGroup
		for range slots {
			pool.Go(func() {
				for busy.Err() == nil {
					_, _ = db.ExecContext(busy, sleepQuery(s, 600))
				}
			})
		}
		defer pool.Wait()
		defer idle()
		require.Eventually(t, func() bool { return db.Stats().InUse == slots }, promptly, time.Millisecond)

		began := time.Now()
		held := make([]*lockctx.Lock, leases)
		inParallel(leases, 50, func(i int) {
			lk, err := lockctx.Acquire(context.Background(), db, fmt.Sprint(key, i), lockctx.Lease(ttl))
			if err != nil {
				t.Errorf("lease %d: %v", i, err)
			}
			held[i] = lk
		})
		require.False(t, t.Failed())
		t.Logf("%d leases were taken in %v", leases, time.Since(began))

		time.Sleep(interval) // those that were acquired one after the other come to be renewed together
		before, began := counter.n.Load(), time.Now()
		for time.Since(began) < *leaseSoak {
			require.Equal(t, leases, rows.live())
			require.Equal(t, slots, db.Stats().InUse)
			time.Sleep(min(time.Second, *leaseSoak))
		}
		renewals, intervals := counter.n.Load()-before, float64(time.Since(began))/float64(interval)
		t.Logf("%d statements in %.2f intervals: %.1f in each", renewals, intervals, float64(renewals)/intervals)
		require.LessOrEqual(t, float64(renewals), float64(leases+999)/1000*(intervals+1), "more than one statement for a thousand leases")
		for _, lk := range held {
			require.NoError(t, lk.Err())
		}

		began = time.Now()
		inParallel(leases, 50, func(i int) {
			if err := held[i].Close(); err != nil {
				t.Errorf("lease %d: %v", i, err)
			}
		})
		t.Logf("they were released in %v", time.Since(began))
		require.Zero(t, rows.live())
	})
}

// live counts the leases that are held.
func (lt *leaseTable) live() (n int) {
	lt.t.Helper()
	query := "SELECT count(*) FROM lockdb_lease WHERE expires_us > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
	if !lt.s.IsMySQL() {
		query = "SELECT count(*) FROM lockdb_lease WHERE expires_at > clock_timestamp()"
	}
	require.NoError(lt.t, lt.bare.QueryRowContext(context.Background(), query).Scan(&n))
	return n
}
