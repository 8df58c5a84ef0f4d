package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lockdb/lockdb/lockctx"
)

// BenchmarkCrowdLimit is Crowd without a server: with a token in a channel, which is
// the least that it can cost to hand something from goroutine to goroutine in the
// order of their coming, and with lockdb on a driver that does nothing.
func BenchmarkCrowdLimit(b *testing.B) {
	for _, n := range []int{2, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			token := make(chan struct{}, 1)
			token <- struct{}{}
			db, shared := openNoop(b), openNoop(b)
			ways := []*way{{name: "channel"}, {name: "lockdb"}, {name: "multiplexed"}}
			for range n {
				for i, t := range []turn{
					{
						take: func() error { <-token; return nil },
						free: func() error { token <- struct{}{}; return nil },
					},
					turnOf(b.Context(), db, "k"),
					turnOf(b.Context(), shared, "k", lockctx.Multiplexed()),
				} {
					ways[i].turns = append(ways[i].turns, t)
				}
			}
			for b.Loop() {
				for _, i := range rand.Perm(len(ways)) {
					t, err := takeTurns(ways[i].turns, window)
					must(b, err)
					ways[i].all.add(t)
					ways[i].rates = append(ways[i].rates, t.perSecond())
				}
			}
			b.ReportMetric(0, "ns/op") // of a round of all: says nothing
			for _, w := range ways {
				b.ReportMetric(median(w.rates), w.name+"-turns/s")
			}
			reportRatios(b, ways)
		})
	}
}
