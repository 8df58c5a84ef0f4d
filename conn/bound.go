package conn

import (
	"sync"
	"time"
)

// cleanupBound bounds what is done on a session without a caller's context:
// closing, rolling back, releasing. Then its socket is closed.
const cleanupBound = 5 * time.Second

// bound is a session's timer for that. It is left running from one use to the
// next, and looks when it fires whether there is something to cut: setting a
// timer can wake the runtime's poller, which costs more than anything else that a
// release does on our side.
type bound struct {
	mu    sync.Mutex // guards what follows; nothing is called under it
	timer *time.Timer
	set   bool      // timer fires at until or before
	until time.Time // zero while nothing is bounded
}

// bound closes the socket if what follows, under io, takes longer than
// cleanupBound: some calls of the drivers take no context. Bounds do not nest.
func (s *session) bound() (stop func()) {
	b := &s.cleanup
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = time.Now().Add(cleanupBound)
	switch {
	case b.timer == nil:
		b.timer = time.AfterFunc(cleanupBound, s.cutOverdue)
	case !b.set:
		b.timer.Reset(cleanupBound)
	}
	b.set = true
	return b.stop
}

func (b *bound) stop() {
	b.mu.Lock()
	b.until = time.Time{}
	b.mu.Unlock()
}

// overdue is asked by the timer, which it sets again if it came too early.
func (b *bound) overdue() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set = false; b.until.IsZero() {
		return false
	}
	left := time.Until(b.until)
	if left <= 0 {
		return true
	}
	b.timer.Reset(left)
	b.set = true
	return false
}

func (s *session) cutOverdue() {
	if s.cleanup.overdue() {
		s.cut()
	}
}
