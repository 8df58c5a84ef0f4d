package conn

import (
	"context"
	"errors"

	"github.com/lockdb/lockdb/internal/dialect"
)

// leaveNest is Close of a nested lock: the outer one stays.
func (l *Lock) leaveNest(gone *Error) error {
	s, patience := l.sess, l.keeper.opts.BusyTimeout
	if !s.quiet(patience) {
		err := errors.New("a statement was still running at Close of a nested lock: the session was closed")
		note := fault(l.key, err.Error(), ErrReleased)
		l.remark(note)
		l.to(stateReleased, note)
		s.leave(l)
		l.ctx.endWith(gone) // as in finish
		s.lose(err)
		l.tellEnd()
		return l.Err()
	}
	switch l.now() {
	case stateReleased: // with its outer lock, meanwhile
		s.io.unlock()
		return nil
	case stateLost:
		s.io.unlock()
		return l.Err()
	}
	returned := false
	defer s.unwind(&returned)
	stop := s.bound(cleanupBound)
	var note error
	if s.endWork(l, gone) {
		note = openTxAtClose(l.key)
		l.remark(note)
	}
	l.endNested(gone)
	l.ctx.endWith(gone)
	err := l.giveBackNested()
	stop()
	returned = true
	s.io.unlock()
	if err != nil {
		s.lose(err)
		note = l.Err()
	}
	l.tellEnd()
	return note
}

// endNested releases the locks nested in l, innermost first. Under io.
func (l *Lock) endNested(gone *Error) {
	s := l.sess
	s.mu.Lock()
	nested := make([]*Lock, 0, len(s.locks))
	for _, have := range s.locks {
		if have != l && have.within(l) {
			nested = append(nested, have)
		}
	}
	s.mu.Unlock()
	for i := len(nested) - 1; i >= 0; i-- {
		n := nested[i]
		n.to(stateClosing, gone)
		n.ctx.endWith(gone)
		if l.outer == nil {
			n.reentry = true // the server's release of all that follows covers it
		}
		err := n.giveBackNested()
		l.endedWith(n)
		if err != nil || l.outer == nil {
			s.mu.Lock()
			s.scrub.locks = true
			s.mu.Unlock()
		}
	}
}

// giveBackNested takes a closing nested lock off its session. If the server did
// not confirm it, the lock counts as lost. Under io.
func (l *Lock) giveBackNested() error {
	l.sess.leave(l)
	var err error
	switch {
	case l.reentry:
	case l.sess.aborted():
		// PostgreSQL runs nothing until the transaction is rolled back: the
		// release is left to the Close of the outermost lock.
		l.sess.mu.Lock()
		l.sess.scrub.locks = true
		l.sess.mu.Unlock()
	default:
		err = l.keeper.releaseNested(l.sess, l.name)
	}
	if err != nil {
		l.to(stateLost, fault(l.key, "", ErrLost, err))
		return err
	}
	l.to(stateReleased, l.Err())
	return nil
}

// releaseNested gives one lock back to the server and leaves the session's
// others. Under io.
func (k *Keeper) releaseNested(s *session, name dialect.Name) error {
	if s.rows != nil && !s.rows.readAhead(cleanupBound) {
		return errors.New("a result set too large to be read ahead was open on the session")
	}
	released := false
	dead, err := s.do(context.Background(), func(ctx context.Context) (err error) {
		released, err = k.dialect.Release(ctx, &s.phys, name)
		return err
	})
	switch {
	case err != nil:
		return err
	case dead:
		return errPeerClosed
	case !released:
		return errNotHeld
	}
	return nil
}
