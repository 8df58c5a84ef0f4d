package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// contender is one way to do the work.
type contender struct {
	name string
	op   func() error
}

// compare runs the contenders as package bench tells. A round has that many calls
// of each.
func compare(b *testing.B, round int, contenders ...contender) {
	b.Helper()
	for _, c := range contenders {
		b.Run("by="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must(b, c.op())
			}
		})
	}
	b.Run("ratio", func(b *testing.B) { ratio(b, round, contenders) })
}

func ratio(b *testing.B, round int, contenders []contender) {
	for _, c := range contenders {
		must(b, c.op()) // it may dial
	}
	times := make([][]float64, len(contenders))
	for b.Loop() {
		for _, i := range rand.Perm(len(contenders)) { // whom one comes after matters
			began := time.Now()
			for range round {
				must(b, contenders[i].op())
			}
			times[i] = append(times[i], float64(time.Since(began))/float64(round))
		}
	}
	b.ReportMetric(0, "ns/op") // of a round of all: says nothing
	for i, c := range contenders {
		b.ReportMetric(median(times[i]), c.name+"-ns")
		if i == 0 {
			continue
		}
		ratios := make([]float64, len(times[i]))
		for r := range ratios {
			ratios[r] = times[i][r] / times[0][r]
		}
		b.ReportMetric(median(ratios), c.name+"/"+contenders[0].name)
	}
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	mid := len(values) / 2
	if len(values)%2 == 1 {
		return values[mid]
	}
	return (values[mid-1] + values[mid]) / 2
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}
