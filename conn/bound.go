package conn

import (
	"context"
	"errors"
	"sync"
	"time"
)

// cleanupBound bounds what is done on a session without a caller's context:
// closing, rolling back, releasing. Then its socket is closed.
const cleanupBound = 5 * time.Second

// bound is a session's timer for what must not take too long. It is left running
// from one use to the next, and looks when it fires whether there is something to
// cut: setting a timer can wake the runtime's poller, which costs more than
// anything else that a release does on our side.
type bound struct {
	mu    sync.Mutex // guards what follows; nothing is called under it but a context's Err
	timer *time.Timer
	set   bool      // timer fires within cleanupBound, and at until or before
	until time.Time // zero while nothing is bounded, or nothing yet: see ends
	turn  int       // counts the uses
	cut   bool      // the time was over: the session is being cut off
	stop  func()    // the session's unbound, made once

	ends  context.Context // if not nil, until is after from its end on, which overdue looks for
	after time.Duration
}

var errOverdue = errors.New("the server did not answer in time")

// bound closes the socket if what follows, under io, takes longer than d, which
// is at least cleanupBound: some calls of the drivers take no context, and the
// end of one costs the connection in any case. Bounds do not nest.
//
// The cut and the end of what is bounded can come at the same moment. Then stop
// loses the session: were its socket closed without that being known, the server
// would free a lock that here still counted as held.
func (s *session) bound(d time.Duration) (stop func()) {
	b := &s.bounded
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until, b.ends = time.Now().Add(d), nil
	return b.start(s)
}

// boundAfter closes the socket if what follows, under io, goes on for d, which is at
// least cleanupBound, after the end of ctx; of one that ends without having had a
// deadline, up to cleanupBound later. It is for COMMIT and ROLLBACK, which the drivers
// do not break off: behind a network that is silent, and whose nearer end keeps TCP
// alive, they would last for ever, and so would the lock. Else as bound.
func (s *session) boundAfter(ctx context.Context, d time.Duration) (stop func()) {
	b := &s.bounded
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until, b.ends, b.after = time.Time{}, aroundLocks(ctx), d
	if b.ends.Done() == nil {
		b.ends = nil
	}
	return b.start(s)
}

// start begins a use. Under mu.
func (b *bound) start(s *session) (stop func()) {
	b.turn++
	switch {
	case b.timer == nil:
		b.timer, b.stop = time.AfterFunc(cleanupBound, s.cutOverdue), s.unbound
	case !b.set:
		b.timer.Reset(cleanupBound)
	}
	b.set = true
	return b.stop
}

func (s *session) unbound() {
	b := &s.bounded
	b.mu.Lock()
	b.until, b.ends = time.Time{}, nil
	cut := b.cut
	b.mu.Unlock()
	if cut {
		s.lose(errOverdue)
	}
}

// now is which use this is.
func (b *bound) now() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.turn
}

// hurry leaves that use no more time than d, if it still goes on.
func (b *bound) hurry(turn int, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := time.Now().Add(d); b.turn == turn && until.Before(b.until) {
		b.until = until
		b.timer.Reset(d)
		b.set = true
	}
}

// overdue is asked by the timer, which it sets again if it came too early.
func (b *bound) overdue() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set = false
	switch {
	case b.cut:
		return false
	case b.ends == nil:
	case b.ends.Err() == nil:
		b.timer.Reset(cleanupBound)
		b.set = true
		return false
	default:
		ended := time.Now()
		if at, ok := b.ends.Deadline(); ok && at.Before(ended) {
			ended = at
		}
		b.until, b.ends = ended.Add(b.after), nil
	}
	if b.until.IsZero() {
		return false
	}
	left := time.Until(b.until)
	if left <= 0 {
		b.cut = true
		return true
	}
	b.timer.Reset(min(left, cleanupBound))
	b.set = true
	return false
}

func (s *session) cutOverdue() {
	if s.bounded.overdue() {
		s.cut()
	}
}
