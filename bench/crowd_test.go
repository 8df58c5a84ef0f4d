package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// window is how long a crowd takes turns in each round.
const window = 200 * time.Millisecond

// BenchmarkCrowd measures how the turns a second, the wait for each and the
// connections grow with the goroutines of one process that want the same lock all
// the time. A round is a window of each way.
func BenchmarkCrowd(b *testing.B) {
	onServers(b, func(b *testing.B, s server) {
		for _, n := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256} {
			b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
				ways := []*way{s.crowd(b, "hand", n)}
				if s.IsMySQL() && n <= 128 { // the server takes 500 connections
					ways = append(ways, s.crowd(b, "literals", n))
				}
				benchmarkCrowd(b, append(ways, s.crowd(b, "lockdb", n),
					s.crowd(b, "multiplexed", n, lockctx.Multiplexed()), s.crowd(b, "lease", n, lockctx.Lease(time.Minute))))
			})
		}
	})
}

// way is one way to share a lock, in a database of its own so that its connections
// can be told from those of others.
type way struct {
	name  string
	view  *dbtest.Server
	turns []turn
	all   tally
	rates []float64 // by round
	conns int
}

func (s server) crowd(b *testing.B, name string, n int, opts ...lockctx.Option) *way {
	b.Helper()
	ctx := context.Background()
	s.Server = s.CreateDatabase(b)
	w := &way{name: name, view: s.Server, turns: make([]turn, n)}
	if byHandIs(name) {
		db := s.bare(b)
		for i := range w.turns {
			c, err := db.Conn(ctx)
			must(b, err)
			b.Cleanup(func() { _ = c.Close() })
			w.turns[i] = turnByHand(ctx, c, s.hand, name)
		}
		return w
	}
	db := s.open(b)
	for i := range w.turns {
		w.turns[i] = turnOf(ctx, db, s.key+":"+name, opts...)
	}
	must(b, w.turns[0].take()) // dials
	must(b, w.turns[0].free())
	return w
}

// byHandIs tells whether it is a way without lockdb.
func byHandIs(way string) bool { return way == "hand" || way == "literals" }

func benchmarkCrowd(b *testing.B, ways []*way) {
	for b.Loop() {
		for _, i := range rand.Perm(len(ways)) {
			w := ways[i]
			midway := make(chan int)
			go func() {
				time.Sleep(window / 2)
				midway <- len(w.view.Sessions(b))
			}()
			t, err := takeTurns(w.turns, window)
			w.conns = max(w.conns, <-midway)
			must(b, err)
			w.all.add(t)
			w.rates = append(w.rates, t.perSecond())
		}
	}
	reportWays(b, ways)
}

func reportWays(b *testing.B, ways []*way) {
	b.ReportMetric(0, "ns/op") // of a round of all: says nothing
	for _, w := range ways {
		b.ReportMetric(median(w.rates), w.name+"-turns/s")
		b.ReportMetric(float64(w.conns), w.name+"-conns")
		w.all.Waits.report(b, w.name+"-")
	}
	reportRatios(b, ways)
}

// reportRatios reports how many times the turns of the first each of the others had,
// in the same round.
func reportRatios(b *testing.B, ways []*way) {
	for _, w := range ways[1:] {
		ratios := make([]float64, len(w.rates))
		for i := range ratios {
			ratios[i] = w.rates[i] / ways[0].rates[i]
		}
		b.ReportMetric(median(ratios), w.name+"/"+ways[0].name)
	}
}
