package conn

import (
	"context"
	"slices"
	"time"
)

// lose ends the session because it is dead or must be taken for dead: the
// locks in its ledger are lost, their contexts end, and then the socket is
// closed. It does not wait for io.
func (s *session) lose(cause error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	locks := s.locks
	s.locks = nil
	s.timer.Stop()
	s.mu.Unlock()
	s.keeper.takeIdle(s)
	for _, l := range slices.Backward(locks) { // nested ones first: their contexts end with the outer one's
		l.lost(cause)
	}
	s.cut()
	s.keeper.tellLost(locks)
	s.keeper.spawn(s.closeInner)
}

// tellLost tells of locks whose session has ended, on a goroutine of its own:
// the loss may have been found in a call of database/sql's, with its mutexes
// held. Their session is still known, so the keeper cannot be done.
func (k *Keeper) tellLost(locks []*Lock) {
	var events []Event
	for _, l := range slices.Backward(locks) { // the nested ones first
		events = l.ends(events)
	}
	if len(events) > 0 {
		k.spawn(func() {
			for _, e := range events {
				k.tell(e)
			}
		})
	}
}

// close ends a session that holds no lock, politely. The caller does not hold io.
func (s *session) close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	s.timer.Stop()
	s.mu.Unlock()
	s.keeper.takeIdle(s)
	s.closeInner()
}

// end closes the session, politely unless it is in use, and waits until it is gone.
func (s *session) end() {
	if s.io.tryLock() {
		s.io.unlock()
		s.close()
	} else {
		s.lose(ErrClosed)
	}
	<-s.gone
}

// closeInner closes the driver's connection. Only then is the session no more.
//
// While a Raw access has the session, nobody knows when the user will be done
// with it: then that closes it. Nor does a call always end when it is cut off:
// a COMMIT goes on whose socket is known to a connector of others only. It is
// not waited for, as database/sql would not.
func (s *session) closeInner() {
	s.mu.Lock()
	lent := s.lent
	s.owed = lent
	s.mu.Unlock()
	switch {
	case lent:
	case s.io.lockWithin(cleanupBound):
		s.closeDriver()
		s.io.unlock()
	default:
		go func() {
			_ = s.io.lock(context.Background())
			s.closeDriver()
			s.io.unlock()
		}()
	}
	s.keeper.forget(s)
	close(s.gone)
}

// closeDriver closes the driver's connection. Under io.
func (s *session) closeDriver() {
	if s.watch != nil {
		s.watch.Stop()
	}
	stop := s.bound(cleanupBound)
	_ = s.dc.Close()
	stop()
	if t := s.tx; t != nil {
		// The server has rolled it back. This is for what the driver keeps
		// until a transaction ends: lib/pq a goroutine.
		s.tx = nil
		_ = t.inner.Rollback()
	}
}

// isClosed reports whether the session has ended or is about to.
func (s *session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// peerClosed is the socket watch's call. A statement under way is let finish:
// its answer may already be there, and that of a COMMIT matters.
func (s *session) peerClosed() {
	s.keeper.spawn(func() {
		if !s.io.lockWithin(time.Second) {
			s.lose(errPeerClosed)
			return
		}
		s.lose(s.parting())
		s.io.unlock()
	})
}

// parting is why the server has closed the connection. PostgreSQL says so before
// it does, and what has arrived can still be read; of what MySQL says nothing is
// to be had from the driver. Under io.
func (s *session) parting() error {
	if s.pg == nil || s.pg.IsClosed() || s.rows != nil || s.isClosed() {
		return errPeerClosed
	}
	defer s.bound(cleanupBound)()
	s.bounded.hurry(s.bounded.now(), grace)
	_, err := s.do(context.Background(), s.pg.Ping) // the driver's own would hide the answer
	return s.whyClosed(nil, err)
}
