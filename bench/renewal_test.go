package bench

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ngrok/sqlmw"

	lockdb "github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/lockctx"
)

// BenchmarkRenewal measures what it takes to keep leases: the statements that reach
// the server in one interval, and their time together.
func BenchmarkRenewal(b *testing.B) {
	const (
		interval  = 500 * time.Millisecond
		intervals = 4 // in a round
	)
	onServers(b, func(b *testing.B, s server) {
		for _, n := range []int{1, 100, 1000, 10_000} {
			b.Run(fmt.Sprintf("leases=%d", n), func(b *testing.B) {
				ctx := context.Background()
				s := s
				s.Server = s.CreateDatabase(b)
				w := new(stopwatch)
				db := s.open(b, lockdb.WithInterceptor(w))
				locks := make([]*lockctx.Lock, n)
				for i := range locks {
					lk, err := lockctx.Acquire(ctx, db, fmt.Sprintf("%s:%d", s.key, i), lockctx.Lease(time.Minute), lockctx.RenewEvery(interval))
					must(b, err)
					locks[i] = lk
				}
				time.Sleep(2 * interval) // they come to be renewed together
				w.read()
				var statements, times []float64
				for b.Loop() {
					time.Sleep(intervals * interval)
					n, took := w.read()
					statements = append(statements, float64(n)/intervals)
					times = append(times, took.Seconds()*1e3/intervals)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(statements), "statements/interval")
				b.ReportMetric(median(times), "ms/interval")
				for _, lk := range locks {
					must(b, lk.Close()) // which fails if it was lost
				}
			})
		}
	})
}

// stopwatch counts statements and adds up the time that they take, from when they
// are sent until their answer has been read.
type stopwatch struct {
	sqlmw.NullInterceptor
	mu   sync.Mutex // guards what follows
	n    int
	took time.Duration
}

type sentAt struct{}

func (w *stopwatch) note(sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	w.took += time.Since(sent)
}

func (w *stopwatch) read() (n int, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, took = w.n, w.took
	w.n, w.took = 0, 0
	return n, took
}

func (w *stopwatch) ConnExecContext(ctx context.Context, c driver.ExecerContext, query string, args []driver.NamedValue) (driver.Result, error) {
	defer w.note(time.Now())
	return c.ExecContext(ctx, query, args)
}

func (w *stopwatch) ConnQueryContext(ctx context.Context, c driver.QueryerContext, query string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	sent := time.Now()
	rows, err := c.QueryContext(ctx, query, args)
	return context.WithValue(ctx, sentAt{}, sent), rows, err
}

func (w *stopwatch) RowsClose(ctx context.Context, rows driver.Rows) error {
	if sent, ok := ctx.Value(sentAt{}).(time.Time); ok {
		defer w.note(sent)
	}
	return rows.Close()
}
