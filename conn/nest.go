package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// A lock acquired under another lock's context lives on that lock's session.
// For the key of a lock whose context it was acquired under it is a re-entry,
// which the server need not hear of. For another key the server is asked on that
// session, beside the rooms: a hand-off could not bring the lock there, and only
// at the server can a deadlock with another session be seen. What the server
// would not tell apart is looked at first: two who are under one lock's context,
// but not under each other's, exclude each other although they share a session.

// nestSlice is longer than PostgreSQL's deadlock_timeout (1 s): only a wait
// that outlasts it is looked at for deadlocks.
const nestSlice = 1500 * time.Millisecond

// nest acquires a lock under the context of outer.
func (k *Keeper) nest(ctx context.Context, outer *Lock, req Request, name dialect.Name) (*Lock, error) {
	l := &Lock{keeper: k, key: req.Key, name: name, sess: outer.sess, outer: outer, part: req.part}
	l.ctx = newLockCtx(ctx, l)
	reentry, err := l.reenter()
	switch {
	case err != nil || reentry:
	case outer.top().xact:
		err = fault(l.key, "the lock of InTx through a pooler is its transaction's: no other can be taken under it", ErrUnsupported)
	default:
		if err = l.sess.takesMore(); err == nil {
			err = k.nestAt(ctx, l, req)
		}
	}
	if err != nil {
		l.ctx.endWith(err)
		return nil, err
	}
	return l, nil
}

// reenter enters the lock if it is a re-entry. Whether the locks around it are
// still held is looked at in the same critical section: one that is being closed
// looks for what is nested in it afterwards.
func (l *Lock) reenter() (bool, error) {
	s := l.sess
	s.mu.Lock()
	defer s.mu.Unlock()
	l.reentry = slices.ContainsFunc(s.locks, func(have *Lock) bool {
		if have.part {
			return have.name == l.name && l.outer.within(have.outer)
		}
		return have.name == l.name && l.outer.within(have)
	})
	if !l.reentry {
		return false, nil
	}
	for around := l.outer; around != nil; around = around.outer {
		if err := around.Err(); err != nil {
			return false, err
		}
	}
	l.since = time.Now()
	s.locks = append(s.locks, l)
	return true, nil
}

// beside tells in words that another lock under the same outermost one has the
// name of l; "" if none does.
func (l *Lock) beside() string {
	s := l.sess
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, have := range s.locks {
		if have.name == l.name && have != l {
			return fmt.Sprintf("this process for %v, under the same lock %q, but not under its own context (session %d)",
				time.Since(have.since).Round(time.Millisecond), l.top().key, s.server.SessionID)
		}
	}
	return ""
}

// enterNest puts the lock into the ledger of a session that its outer lock
// still holds.
func (l *Lock) enterNest() error {
	if err := l.outer.Err(); err != nil {
		return err
	}
	l.since = time.Now()
	if !l.sess.enter(l) {
		return fault(l.key, "", ErrLost, errPeerClosed)
	}
	return nil
}

// nestAt asks the server for the lock of another key. The wait is on a
// goroutine of the keeper's, so that ctx can end it; a slice under way is seen
// through, and what it brought is given back.
func (k *Keeper) nestAt(ctx context.Context, l *Lock, req Request) error {
	var over <-chan time.Time
	if req.Timeout > 0 {
		timer := time.NewTimer(req.Timeout)
		defer timer.Stop()
		over = timer.C
	}
	granted, err := l.askNested(ctx, false)
	w := &waiter{key: l.key, parent: ctx, since: time.Now()}
	explain := func(err error, seen string) error {
		return k.explain(ctx, &room{name: l.name, seen: cmp.Or(l.beside(), seen)}, w, err)
	}
	if !granted && err == nil && !req.Try {
		defer k.nests(w, l.name)()
		req.outcome.waits()
	}
	for !granted && err == nil && !req.Try {
		done := make(chan struct{})
		if !k.spawn(func() {
			defer close(done)
			granted, err = l.askNested(ctx, true)
		}) {
			return fault(l.key, "", ErrClosed)
		}
		var why error
		select {
		case <-done:
			continue
		case <-ctx.Done():
			why = ctx.Err()
		case <-over:
			why = errTimeout
		}
		k.spawn(func() {
			<-done
			if granted && err == nil {
				_ = l.Close()
			}
		})
		return explain(why, "")
	}
	switch {
	case err != nil && l.outer.Err() != nil:
		return l.outer.Err()
	case err != nil:
		return explain(err, "")
	case !granted:
		r := &room{name: l.name}
		k.look(r, l.sess)
		return explain(errTimeout, r.seen)
	}
	return nil
}

// nests has Held show that w waits for a nested lock.
func (k *Keeper) nests(w *waiter, name dialect.Name) (over func()) {
	k.mu.Lock()
	k.nesting[w] = name
	k.mu.Unlock()
	return func() {
		k.mu.Lock()
		delete(k.nesting, w)
		k.mu.Unlock()
	}
}

// askNested asks once on the outer lock's session, and enters what it is
// granted. In a transaction of PostgreSQL it only tries, with a pause before:
// the end of a wait by timeout would abort the transaction.
func (l *Lock) askNested(ctx context.Context, wait bool) (granted bool, err error) {
	s, d := l.sess, l.keeper.dialect
	if err := s.io.lock(ctx); err != nil {
		return false, err
	}
	if err := l.outer.check(); err != nil {
		s.io.unlock()
		return false, err
	}
	if l.beside() != "" {
		s.io.unlock()
		if wait {
			l.pause()
		}
		return false, nil
	}
	inTx := s.inTx()
	if s.rows != nil && !s.rows.readAhead(l.keeper.opts.BusyTimeout) {
		s.io.unlock()
		return false, fault(l.key, "a result set too large to be read ahead is open on the lock's session: close it first", ErrBusy)
	}
	blocking := wait && (!inTx || d != dialect.Postgres)
	// Nobody can ping meanwhile: without an answer the locks that are held here
	// count as lost when they would otherwise.
	stop := s.bound(l.keeper.answerBound())
	s.bounded.hurry(s.bounded.now(), nestSlice+l.keeper.deadline())
	dead, err := s.do(context.Background(), func(ctx context.Context) (err error) {
		if blocking {
			granted, err = d.Wait(ctx, &s.phys, l.name, nestSlice)
		} else {
			granted, err = d.Try(ctx, &s.phys, l.name)
		}
		return err
	})
	if granted {
		if eerr := l.enterNest(); eerr != nil { // the outer lock is being closed, and waits for io
			err = errors.Join(eerr, l.keeper.releaseNested(s, l.name))
			granted = false
		}
	}
	stop()
	s.io.unlock()
	if dead {
		s.lose(err)
	}
	if wait && !blocking && !granted && err == nil {
		l.pause()
	}
	return granted, err
}

// pause is between two tries where there is nothing to wait at.
func (l *Lock) pause() {
	t := time.NewTimer(20 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.ctx.Done():
	}
}

// leaveNest is Close of a nested lock: the outer one stays.
func (l *Lock) leaveNest(gone error) error {
	s, patience := l.sess, l.keeper.opts.BusyTimeout
	if !s.io.lockWithin(patience) {
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
	stop := s.bound(cleanupBound)
	var note error
	if s.endWork(l, gone) {
		note = openTxAtClose(l.key)
		l.remark(note)
	}
	l.ctx.endWith(gone)
	l.endNested(gone)
	err := l.giveBackNested()
	stop()
	s.io.unlock()
	if err != nil {
		s.lose(err)
		note = l.Err()
	}
	l.tellEnd()
	return note
}

// endNested releases the locks nested in l, innermost first. Under io.
func (l *Lock) endNested(gone error) {
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
	if !l.reentry {
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
