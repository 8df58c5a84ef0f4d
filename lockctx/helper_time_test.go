package lockctx_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// standstill watches, until the test's end, for how long at a time this process did not get on: a busy machine, or
// one that was stopped, lets nobody tell which of two things came first meanwhile.
type standstill struct{ longest atomic.Int64 }

func watchStandstill(t testing.TB) *standstill {
	t.Helper()
	s, stop, stopped := &standstill{}, make(chan struct{}), make(chan struct{})
	const every = 5 * time.Millisecond
	go func() {
		defer close(stopped)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
				now := time.Now()
				s.longest.Store(max(s.longest.Load(), int64(now.Sub(last)-every)))
				last = now
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
	return s
}

// time is the longest so far.
func (s *standstill) time() time.Duration { return time.Duration(s.longest.Load()) }

// requireToldFirst requires that a holder was told of its loss before the next one was granted the lock, unless this
// process stood still for most of the sixth of the TTL by which it is to be earlier.
func (s *standstill) requireToldFirst(t testing.TB, told, granted time.Time, ttl time.Duration, what string) {
	t.Helper()
	if longest := s.time(); !told.Before(granted) && longest > ttl/12 {
		t.Logf("%s: told %v after the next was granted, but this process stood still for %v", what, told.Sub(granted), longest)
		return
	}
	require.True(t, told.Before(granted), "%s: told %v after the next was granted", what, told.Sub(granted))
}

// requireSoon requires that what try measures is less than limit: a busy machine may delay it, but not each time.
func requireSoon(t testing.TB, limit time.Duration, try func() time.Duration) {
	t.Helper()
	best := try()
	for tries := 1; tries < 5 && best >= limit; tries++ {
		best = min(best, try())
	}
	require.Less(t, best, limit)
}
