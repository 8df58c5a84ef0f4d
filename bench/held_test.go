package bench

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/lockdb/lockdb/lockctx"
)

// BenchmarkHeld measures many locks that are held at the same time, each of a key of
// its own: connections, Go heap, and the time in which one goroutine takes and
// releases all. A lock with a session of its own is limited by the connections that
// the server takes.
func BenchmarkHeld(b *testing.B) {
	onServers(b, func(b *testing.B, s server) {
		for _, way := range []struct {
			name string
			most int
			opts []lockctx.Option
		}{
			{"lockdb", 100, nil},
			{"multiplexed", 10_000, []lockctx.Option{lockctx.Multiplexed()}},
			{"lease", 10_000, []lockctx.Option{lockctx.Lease(10 * time.Minute)}},
		} {
			for n := 1; n <= way.most; n *= 10 {
				b.Run(fmt.Sprintf("by=%s/locks=%d", way.name, n), func(b *testing.B) {
					s := s
					s.Server = s.CreateDatabase(b)
					var h holding
					for b.Loop() {
						h.hold(b, s, n, way.opts)
					}
					h.report(b)
				})
			}
			if way.opts == nil {
				time.Sleep(6 * time.Second) // timers that bounded what was done on the sessions still have them in memory
			}
		}
	})
}

// holding is what was measured, by round.
type holding struct{ take, release, heap, conns []float64 }

func (h *holding) hold(b *testing.B, s server, n int, opts []lockctx.Option) {
	ctx := context.Background()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s:%d", s.key, i)
	}
	locks := make([]*lockctx.Lock, n)
	db := s.open(b)
	defer db.Close()
	must(b, acquireClose(ctx, db, s.key, opts...)()) // dials, and makes the table of leases
	before, began := heapInUse(), time.Now()
	for i, key := range keys {
		lk, err := lockctx.Acquire(ctx, db, key, opts...)
		must(b, err)
		locks[i] = lk
	}
	h.take = append(h.take, float64(time.Since(began)))
	h.heap = append(h.heap, (heapInUse()-before)/float64(n))
	h.conns = append(h.conns, float64(len(s.Sessions(b))))
	began = time.Now()
	for _, lk := range locks {
		must(b, lk.Close())
	}
	h.release = append(h.release, float64(time.Since(began)))
	runtime.KeepAlive(keys)
}

func (h *holding) report(b *testing.B) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(h.take)/1e6, "take-ms")
	b.ReportMetric(median(h.release)/1e6, "release-ms")
	b.ReportMetric(median(h.heap), "heap-B/lock")
	b.ReportMetric(median(h.conns), "conns")
}

// heapInUse is the bytes of the objects that are reachable.
func heapInUse() float64 {
	runtime.GC()
	runtime.GC() // what finalizers have let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
