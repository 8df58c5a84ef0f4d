package conn

import (
	"context"
	"errors"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// nestSlice is longer than PostgreSQL's deadlock_timeout (1 s): only a wait
// that outlasts it is looked at for deadlocks.
const nestSlice = 1500 * time.Millisecond

// nestAt asks the server for the lock of another key. The wait is on a
// goroutine of the keeper's, so that ctx can end it; a slice under way is seen
// through, and what it brought is given back.
func (k *Keeper) nestAt(ctx context.Context, l *Lock, req Request) error {
	var over <-chan time.Time
	first := ctx
	if req.Timeout > 0 {
		timer := time.NewTimer(req.Timeout)
		defer timer.Stop()
		over = timer.C
		var cancel context.CancelFunc
		first, cancel = context.WithTimeout(ctx, req.Timeout)
		defer cancel()
	}
	w := &waiter{outcome: outcome{key: l.key, start: time.Now()}, parent: ctx}
	r := &room{name: l.name} // nobody's but this wait's
	explain := func(err error) error {
		if beside := l.beside(); beside != "" {
			k.mu.Lock()
			r.seen = beside
			k.mu.Unlock()
		}
		return k.explain(ctx, r, w, err)
	}
	granted, err := l.askNested(first, 0)
	if !granted && err == nil && !req.Try {
		defer k.nests(w, l.name)()
		req.outcome.waits()
	}
	var looked time.Time
	until, bounded := first.Deadline()
	for !granted && err == nil && !req.Try {
		done := make(chan struct{})
		slice := nestSlice
		if bounded { // what is left of it when the wait is over keeps others from the session
			slice = max(time.Millisecond, min(slice, time.Until(until)))
		}
		look := time.Since(looked) > nestSlice
		if look {
			looked = time.Now()
		}
		if !k.spawn(func() {
			defer close(done)
			if look { // first, since the slice may outlast the wait
				err = l.lookNested(ctx, r)
			}
			if err == nil {
				granted, err = l.askNested(ctx, slice)
			}
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
		return explain(why)
	}
	switch {
	case err != nil && l.outer.Err() != nil:
		return l.outer.Err()
	case err != nil:
		return explain(err)
	case !granted:
		_ = l.lookNested(first, r)
		return explain(errTimeout)
	}
	return nil
}

// lookNested asks the server who holds the lock, for the error of a wait.
func (l *Lock) lookNested(ctx context.Context, r *room) error {
	if err := l.turn(ctx); err != nil {
		return err
	}
	if err := l.outer.check(); err != nil {
		l.sess.io.unlock()
		return err
	}
	l.keeper.lookAt(r, l.sess)
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
// granted. Without a slice it does not wait. In a transaction of PostgreSQL it only tries, with a pause before:
// the end of a wait by timeout would abort the transaction.
func (l *Lock) askNested(ctx context.Context, slice time.Duration) (granted bool, err error) {
	wait := slice > 0
	s, d := l.sess, l.keeper.dialect
	if err := l.turn(ctx); err != nil {
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
	returned := false
	defer s.unwind(&returned)
	inTx := s.inTx()
	if s.rows != nil && !s.rows.readAhead(l.keeper.opts.BusyTimeout) {
		returned = true
		s.io.unlock()
		return false, fault(l.key, "a result set too large to be read ahead is open on the lock's session: close it first", ErrBusy)
	}
	blocking := wait && (!inTx || d != dialect.Postgres) && l.keeper.patience.outlasts(nestSlice)
	// Nobody can ping meanwhile: without an answer the locks that are held here
	// count as lost when they would otherwise.
	stop := s.bound(l.keeper.answerBound())
	s.bounded.hurry(s.bounded.now(), nestSlice+l.keeper.deadline())
	dead, err := s.do(context.Background(), func(ctx context.Context) (err error) {
		if blocking {
			granted, err = d.Wait(ctx, &s.phys, l.name, slice)
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
	returned = true
	s.io.unlock()
	if dead {
		s.lose(err)
	}
	if wait && !blocking && !granted && err == nil {
		l.pause()
	}
	return granted, err
}

// turn takes the session's io. It waits for a statement to end, but a Raw access
// could be of the same goroutine, and last until after this call.
func (l *Lock) turn(ctx context.Context) error {
	s, patience := l.sess, l.keeper.opts.BusyTimeout
	for !s.io.tryLock() {
		wait, cancel := context.WithTimeout(ctx, max(patience, 10*time.Millisecond))
		err := s.io.lock(wait)
		cancel()
		if err == nil {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		s.mu.Lock()
		lent := s.lent
		s.mu.Unlock()
		if lent {
			return fault(l.key, "a Raw access has the lock's session: close its *sql.Conn first, or run a statement on it", ErrBusy)
		}
	}
	return nil
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
