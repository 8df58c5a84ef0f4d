package bench

import (
	"sync"
	"time"
)

// turn is one goroutine's way to take a lock, waiting for it, and to free it.
type turn struct{ take, free func() error }

// tally is what came of turns.
type tally struct {
	Waits histogram     // how long each take took
	Took  time.Duration // how long all of it took
}

func (t *tally) add(other tally) {
	if t.Waits == nil {
		t.Waits = make(histogram)
	}
	t.Waits.add(other.Waits)
	t.Took += other.Took
}

// perSecond is the turns a second.
func (t *tally) perSecond() float64 { return float64(t.Waits.count()) / t.Took.Seconds() }

// takeTurns has the crowd take turns, a goroutine each, until the time is over and
// each has ended its last.
func takeTurns(crowd []turn, length time.Duration) (tally, error) {
	type result struct {
		waits histogram
		err   error
	}
	results := make([]result, len(crowd))
	began := time.Now()
	var wg sync.WaitGroup
	for i, t := range crowd {
		wg.Go(func() {
			r, waits := result{}, new(counts)
			for asked := time.Now(); asked.Sub(began) < length && r.err == nil; asked = time.Now() {
				if r.err = t.take(); r.err == nil {
					waits.note(time.Since(asked))
					r.err = t.free()
				}
			}
			r.waits = waits.histogram()
			results[i] = r
		})
	}
	wg.Wait()
	all := tally{Waits: make(histogram), Took: time.Since(began)}
	for _, r := range results {
		if r.err != nil {
			return all, r.err
		}
		all.Waits.add(r.waits)
	}
	return all, nil
}
