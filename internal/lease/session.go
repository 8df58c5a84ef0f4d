package lease

import (
	"context"
	"database/sql/driver"
	"sync"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// Session is what a driver's connection is to the Manager.
type Session interface {
	driver.Conn
	// Querier speaks to the server.
	Querier() dialect.Querier
	// Cut breaks a statement under way, and the connection; false if it cannot.
	// It can be called at any time.
	Cut() bool
	// CanCut tells whether Cut works.
	CanCut() bool
}

// session is a connection with what its server said.
type session struct {
	Session
	server dialect.LeaseServer
	m      *Manager

	mu    sync.Mutex  // guards what follows; nothing is called under it but Cut
	timer *time.Timer // left running from one statement to the next: setting one can wake the runtime's poller
	set   bool        // timer fires within a limitStep, at until or before
	until time.Time   // when the statement under way is cut off; zero if none is
	turn  int         // counts the statements
	cut   bool
	waits bool // the statement under way is of one who waits for a lease
}

// limitStep is the least that most statements are given: while the timer runs for
// no longer than that, it need not be set for each of them.
const limitStep = cleanup

// grace is how long a statement may go on after the end of the context of who
// waits for it, before its connection is given up.
const grace = 250 * time.Millisecond

// limit bounds the statement that follows: it is cut off after d, or grace after
// the end of ctx. The context that it returns is for the statement: drivers pay
// for one that can end, so only a connection that cannot be cut off gets such a
// one. stop ends the statement and tells whether it was cut off.
func (s *session) limit(ctx context.Context, d time.Duration) (inner context.Context, stop func() (cut bool)) {
	if !s.CanCut() {
		return bounded(ctx, d)
	}
	s.mu.Lock()
	s.turn++
	turn := s.turn
	s.arm(d)
	w, waits := ctx.(*waiting)
	if s.waits = waits; waits {
		ctx = w.Context
		if w.end.Err() != nil {
			s.shorten()
		}
	}
	s.mu.Unlock()
	if ctx.Done() == nil {
		return context.Background(), s.unlimit
	}
	unwatch := context.AfterFunc(ctx, func() { s.hurry(turn) })
	return context.Background(), func() bool {
		unwatch()
		return s.unlimit()
	}
}

// arm has the statement cut off after d. Under mu.
func (s *session) arm(d time.Duration) {
	s.until = time.Now().Add(d)
	next := min(d, limitStep)
	switch {
	case s.timer == nil:
		s.timer = time.AfterFunc(next, s.overdue)
	case !s.set || d < limitStep:
		s.timer.Reset(next)
	}
	s.set = true
}

func (s *session) unlimit() (cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
	return s.cut
}

// hurry leaves the statement no more time than grace, if it is still that one.
func (s *session) hurry(turn int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == turn {
		s.shorten()
	}
}

// hurryWait is hurry for the statement of one who waits, if that is under way.
func (s *session) hurryWait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits {
		s.shorten()
	}
}

// shorten leaves the statement under way, if there is one, no more time than grace.
// Under mu.
func (s *session) shorten() {
	if until := time.Now().Add(grace); until.Before(s.until) {
		s.until = until
		s.timer.Reset(grace)
		s.set = true
	}
}

// overdue is the timer's, which it sets again if it came too early.
func (s *session) overdue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = false
	if s.until.IsZero() || s.cut {
		return
	}
	if left := time.Until(s.until); left > 0 {
		s.timer.Reset(min(left, limitStep))
		s.set = true
		return
	}
	s.cut = s.Cut()
}

// bounded is limit for a connection that can only be broken off through a context.
func bounded(ctx context.Context, d time.Duration) (inner context.Context, stop func() (cut bool)) {
	inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	unwatch := context.AfterFunc(ctx, func() {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-inner.Done():
		}
	})
	return inner, func() bool {
		unwatch()
		cancel()
		return false
	}
}

// IsValid implements driver.Validator.
func (s *session) IsValid() bool {
	v, ok := s.Session.(driver.Validator)
	return !ok || v.IsValid()
}

// ResetSession implements driver.SessionResetter.
func (s *session) ResetSession(ctx context.Context) error {
	if r, ok := s.Session.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// Close implements driver.Conn.
func (s *session) Close() error {
	s.m.mu.Lock()
	delete(s.m.sessions, s)
	s.m.mu.Unlock()
	s.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	return s.Session.Close()
}
