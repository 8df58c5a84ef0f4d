package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockdb/lockdb/lockctx"
)

// BenchmarkLoss measures the time from the moment at which an operator's KILL is
// sent until the context of the lock whose session it ends has ended. The goal is a
// 99th percentile of 10 ms.
func BenchmarkLoss(b *testing.B) {
	onServers(b, func(b *testing.B, s server) {
		ctx := context.Background()
		db, admin := s.open(b), s.conn(b)
		kill := "SELECT pg_terminate_backend(%d)"
		if s.IsMySQL() {
			kill = "KILL %d"
		}
		times := make(histogram)
		for b.Loop() {
			lk, err := lockctx.Acquire(ctx, db, s.key)
			must(b, err)
			held, err := lockctx.Held(ctx, db)
			must(b, err)
			began := time.Now()
			_, err = admin.ExecContext(ctx, fmt.Sprintf(kill, held[0].Session))
			must(b, err)
			<-lk.Context().Done()
			times.note(time.Since(began))
			_ = lk.Close() // says that it was lost
		}
		b.ReportMetric(0, "ns/op")
		times.report(b, "")
	})
}
