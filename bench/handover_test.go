package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// BenchmarkHandOver measures the time from the begin of a release in one process
// until another one, which waits, has the lock. A round is 50 turns of each of two
// processes.
func BenchmarkHandOver(b *testing.B) {
	onCommits(b, func(b *testing.B, s server) {
		for _, way := range []string{"lockdb", "multiplexed", "lease"} {
			b.Run("by="+way, func(b *testing.B) {
				view := s.CreateDatabase(b)
				key := dbtest.Key(b)
				pair := []*worker{hire(b, view, key), hire(b, view, key)}
				turns := order{Job: "turns", Way: way, TTL: time.Minute, Turns: 1}
				do(pair, turns)                  // dial, and make the table
				turns.For = 4 * time.Millisecond // in which the other one has come to wait
				turns.Turns = 50
				all := make(histogram)
				for b.Loop() {
					handOvers(do(pair, turns), all)
				}
				b.ReportMetric(0, "ns/op")
				all.report(b, "")
			})
		}
	})
}

// handOvers notes how long it took whenever the next holder was the other process.
func handOvers(answers []answer, times histogram) {
	type held struct {
		tenure
		process int
	}
	var all []held
	for i, a := range answers {
		for _, t := range a.Tenures {
			all = append(all, held{t, i})
		}
	}
	slices.SortFunc(all, func(a, b held) int { return a.Began.Compare(b.Began) })
	for i, next := range all[1:] {
		if last := all[i]; last.process != next.process {
			times.note(next.Began.Sub(last.Ends))
		}
	}
}
