package bench

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockdb/lockdb/internal/dbtest"
)

const (
	processes  = 4
	goroutines = 16 // of each
)

// BenchmarkProcesses measures several processes that want the same lock all the
// time: the turns of all together, and the least share that one of them had.
func BenchmarkProcesses(b *testing.B) {
	onServers(b, func(b *testing.B, s server) {
		names := []string{"hand", "lockdb", "multiplexed", "lease"}
		if s.IsMySQL() {
			names = append(names, "literals")
		}
		ways := make([]*peers, len(names))
		for i, name := range names {
			ways[i] = s.peers(b, name)
		}
		for b.Loop() {
			for _, i := range rand.Perm(len(ways)) {
				ways[i].run(500 * time.Millisecond)
			}
		}
		all := make([]*way, len(ways))
		for i, p := range ways {
			all[i] = &p.way
			b.ReportMetric(median(p.least), p.name+"-least-share")
		}
		reportWays(b, all)
	})
}

// peers are processes that share a lock one way.
type peers struct {
	way
	b       *testing.B
	workers []*worker
	least   []float64 // share, by round
}

func (s server) peers(b *testing.B, name string) *peers {
	view := s.CreateDatabase(b)
	p := &peers{way: way{name: name, view: view}, b: b}
	key := dbtest.Key(b)
	for range processes {
		p.workers = append(p.workers, hire(b, view, key))
	}
	p.order(time.Millisecond) // dials
	return p
}

func (p *peers) order(length time.Duration) []answer {
	return do(p.workers, order{Job: "crowd", Way: p.name, TTL: time.Minute, Goroutines: goroutines, For: length})
}

func (p *peers) run(length time.Duration) {
	midway := make(chan int)
	go func() {
		time.Sleep(length / 2)
		midway <- len(p.view.Sessions(p.b))
	}()
	answers := p.order(length)
	p.conns = max(p.conns, <-midway)
	var round tally
	for _, a := range answers {
		round.add(a.Crowd)
	}
	round.Took /= processes // at the same time
	least := 1.0
	for _, a := range answers {
		least = min(least, float64(a.Crowd.Waits.count())/float64(round.Waits.count()))
	}
	p.all.add(round)
	p.rates = append(p.rates, round.perSecond())
	p.least = append(p.least, least)
}
