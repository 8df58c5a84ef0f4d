package bench

import (
	"math"
	"testing"
	"time"
)

func TestQuantilesAreRightToThreePercent(t *testing.T) {
	a, b := make(histogram), make(histogram)
	for us := 1; us <= 100_000; us++ {
		[]histogram{a, b}[us%2].note(time.Duration(us) * time.Microsecond)
	}
	a.add(b)
	var quick counts
	quick.note(time.Minute)
	quick.note(0)
	if h := quick.histogram(); h.count() != 2 || h.quantile(1) < time.Minute {
		t.Fatalf("%v", h)
	}
	if n := a.count(); n != 100_000 {
		t.Fatalf("%d durations", n)
	}
	for _, q := range []float64{0.01, 0.5, 0.99} {
		want := q * 100_000 * float64(time.Microsecond)
		if got := float64(a.quantile(q)); math.Abs(got-want) > 0.035*want {
			t.Errorf("quantile %v: %v, want %v", q, time.Duration(got), time.Duration(want))
		}
	}
	if got := make(histogram).quantile(0.5); got > time.Microsecond {
		t.Errorf("of nothing: %v", got)
	}
}
