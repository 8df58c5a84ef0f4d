package conn

import (
	"errors"
	"fmt"
)

// Close releases the lock. It first refuses new statements and waits (up to the
// busy timeout) for one that is running, closes an open result set, rolls back
// an open transaction, and ends the lock's Context; only then is the lock
// released. It does so whatever has become of Acquire's ctx. Close of a lease ends
// the Context first, and then waits as long for what was begun under it to end.
//
// Close returns nil if the lock was held until then. It returns an error that
// matches ErrLost if the lock was lost before; one that says so if a
// transaction was rolled back or a statement was cut off (the lock is released
// nevertheless), or a lease could not be released at the server, where it then
// lasts until its expiry; and ErrClosed, at most, after the *sql.DB was closed. Further
// calls return the result of the first; concurrent ones wait for it.
func (l *Lock) Close() error { return l.shut(ErrReleased) }

func (l *Lock) shut(reason error) error {
	l.once.Do(func() {
		l.closeErr = l.release(reason)
		l.shutDown = true
	})
	if !l.shutDown {
		return fault(l.key, "", ErrLost, errUnwound)
	}
	return l.closeErr
}

func (l *Lock) release(reason error) error {
	gone, dbClosed := l.released(), errors.Is(reason, ErrClosed)
	if dbClosed {
		gone = fault(l.key, "", ErrReleased, ErrClosed)
	}
	if l.isLease {
		return l.closeLease(gone, reason)
	}
	if !l.to(stateClosing, gone) && !l.closingEarly() {
		return l.Err()
	}
	if l.outer != nil {
		return l.leaveNest(gone)
	}
	if l.shared {
		return l.closeShared(gone, reason)
	}
	l.closeGates(gone)
	s, patience := l.sess, l.keeper.opts.BusyTimeout
	if !s.quiet(patience) {
		return l.finish(s, gone, fmt.Errorf("a statement was still running after %v: its session was closed, and the lock with it", patience))
	}
	returned := false
	defer s.unwind(&returned)
	var note error
	if dbClosed {
		note = ErrClosed
	}
	tidy := s.tidy()
	if !tidy {
		stop := s.bound(cleanupBound)
		if s.endWork(l, gone) {
			note = openTxAtClose(l.key)
		}
		l.endNested(gone) // whose contexts end with l's: they must not do so unsaid
		stop()
	}
	if note != nil {
		l.remark(note)
	}
	l.ctx.endWith(gone)
	returned = true
	if s.dead() || s.manual {
		s.io.unlock()
		s.lose(errPeerClosed)
		l.tellEnd()
		return l.Err()
	}
	if err := l.keeper.release(l, tidy); err != nil { // releases io
		return err
	}
	return note
}

func openTxAtClose(key string) error {
	return fault(key, "a transaction begun under the lock was still open at Close: it was rolled back before the release", ErrReleased)
}

// finish destroys the session of a lock that is being closed. The lock is
// released by that, not lost: also if the end of its context, on which the
// driver closes the connection, is what ends the session.
func (l *Lock) finish(s *session, gone *Error, why error) error {
	err := fault(l.key, why.Error(), ErrReleased)
	l.remark(err)
	l.to(stateReleased, err)
	s.leave(l)
	l.ctx.endWith(gone)
	s.lose(why)
	l.tellEnd()
	l.keeper.vacate(l)
	return l.Err()
}

// closeGates refuses statements, in an open transaction too.
func (l *Lock) closeGates(err error) {
	l.gate.close(err)
	l.mu.Lock()
	tx := l.tx
	l.mu.Unlock()
	if tx != nil {
		tx.gate.close(err)
	}
}
