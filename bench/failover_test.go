package bench

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// failoverTTL is that of the leases whose holders are killed.
const failoverTTL = 3 * time.Second

// BenchmarkFailover measures the time from kill -9 of the process that holds the
// lock until another one, which waits, has it. Each round has some such holders,
// which began one after the other, so that they are killed at different times after
// their last renewal.
func BenchmarkFailover(b *testing.B) {
	onServers(b, func(b *testing.B, s server) {
		for _, way := range []string{"lockdb", "multiplexed", "lease"} {
			b.Run("by="+way, func(b *testing.B) {
				var times []float64
				for b.Loop() {
					times = append(times, s.failover(b, order{Job: "hold", Way: way, TTL: failoverTTL})...)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(times)/1e6, "p50-ms")
				b.ReportMetric(slices.Max(times)/1e6, "max-ms")
			})
		}
	})
}

func (s server) failover(b *testing.B, o order) (times []float64) {
	const holders, apart = 4, 300 * time.Millisecond
	ctx := context.Background()
	view := s.CreateDatabase(b)
	s.Server = view
	db := s.open(b)
	type heir struct {
		holder *worker
		got    chan time.Time
		lock   *lockctx.Lock
		err    error
	}
	heirs := make([]*heir, holders)
	for i := range heirs {
		key := dbtest.Key(b)
		h := &heir{holder: hire(b, view, key), got: make(chan time.Time, 1)}
		do([]*worker{h.holder}, o)
		go func() {
			h.lock, h.err = lockctx.Acquire(ctx, db, key+":"+o.Way, o.options()...)
			h.got <- time.Now()
		}()
		heirs[i] = h
		time.Sleep(apart)
	}
	for _, h := range heirs {
		began := time.Now()
		h.holder.kill()
		times = append(times, -float64(began.UnixNano()))
	}
	for i, h := range heirs {
		times[i] += float64((<-h.got).UnixNano())
		must(b, h.err)
		must(b, h.lock.Close())
	}
	return times
}
