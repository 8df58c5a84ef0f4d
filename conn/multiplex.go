package conn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// A multiplexed lock shares its session with others: ten thousand of them need no
// more than one. Nothing of the user's runs there, so its context only tells of
// loss. It is tried for on a shared session, which costs others a round trip; who
// has to wait does so on a session of his own, so that no release stands behind a
// wait, and that session becomes shared when the lock is granted there. One
// process is in one place at a time for each lock (room), so no session gets the
// same name twice.

// multiplexing is what a Keeper has for multiplexed locks.
type multiplexing struct {
	// Guarded by mu.
	shared   []*session
	held     int // locks on them
	asked    bool
	capacity int // of the server's lock table for this process; 0 is no limit that is known
}

// sharedOf is how a context tells the innermost multiplexed lock of a keeper.
type sharedOf struct{ keeper *Keeper }

// acquireShared is acquire for a multiplexed lock. The caller has made the outcome.
func (k *Keeper) acquireShared(ctx context.Context, req Request, name dialect.Name) (*Lock, error) {
	around, _ := ctx.Value(sharedOf{k}).(*Lock)
	for l := around; l != nil; l = l.aroundShared {
		if l.name == name {
			return k.reenterShared(ctx, req, l)
		}
	}
	l, err := k.acquireInRoom(ctx, req, name)
	if err == nil {
		l.aroundShared = around
	}
	return l, err
}

// reenterShared makes a lock that is another one's, under whose context it was
// asked for: it ends with that, and its own Close releases nothing.
func (k *Keeper) reenterShared(ctx context.Context, req Request, outer *Lock) (*Lock, error) {
	if err := outer.Err(); err != nil {
		return nil, err
	}
	l := &Lock{keeper: k, key: req.Key, name: outer.name, sess: outer.sess, since: time.Now(), shared: true, reentry: true, aroundShared: outer}
	l.ctx = newLockCtx(ctx, l)
	return l, nil
}

// attemptShared tries for a free room's lock on a shared session.
func (k *Keeper) attemptShared(ctx context.Context, r *room, w *waiter, req Request) (*Lock, error) {
	type result struct {
		s       *session
		granted bool
		err     error
	}
	try := func() result {
		s, granted, err := k.tryShared(ctx, r.name, req)
		return result{s, granted, err}
	}
	var got result
	if ctx.Done() == nil {
		got = try()
	} else {
		// The statement is not broken off with ctx: that would cost the others
		// their locks. It is seen through without the caller.
		done := make(chan result, 1)
		if !k.spawn(func() { done <- try() }) {
			k.giveUp(r, nil)
			return nil, fault(w.key, "", ErrClosed)
		}
		select {
		case got = <-done:
		case <-ctx.Done():
			k.spawn(func() {
				if late := <-done; late.granted {
					k.dropShared(late.s, r.name)
				}
				k.giveUp(r, nil)
			})
			return nil, k.explain(ctx, r, w, ctx.Err())
		}
	}
	switch {
	case got.err != nil:
		k.giveUp(r, nil)
		return nil, k.explain(ctx, r, w, got.err)
	case got.granted:
		l, err := k.install(r, w, got.s, tenure{since: time.Now()})
		k.leaveShared(got.s)
		if err != nil {
			k.giveUp(r, nil)
		}
		return l, err
	case req.Try:
		k.giveUp(r, nil)
		return nil, k.explain(ctx, r, w, errTimeout)
	}
	w.ready = make(chan answer, 1)
	k.mu.Lock()
	if k.closing {
		k.mu.Unlock()
		k.giveUp(r, nil)
		return nil, fault(w.key, "", ErrClosed)
	}
	w.place = r.queue.PushFront(w)
	k.mu.Unlock()
	k.spawn(func() { k.contend(r, nil) })
	return k.await(ctx, r, w, req.Timeout)
}

// tryShared asks the server once, on a shared session. If the lock was granted
// the caller calls leaveShared when it is in the session's ledger.
func (k *Keeper) tryShared(ctx context.Context, name dialect.Name, req Request) (s *session, granted bool, err error) {
	for range k.opts.MaxIdleSessions + 2 {
		if s, err = k.enterShared(ctx, name, req); err != nil {
			return nil, false, err
		}
		if err = k.hasRoom(s, req.Key); err != nil {
			k.leaveShared(s)
			return nil, false, err
		}
		var dead bool
		granted, dead, err = k.ask(context.Background(), s, func(ctx context.Context) (bool, error) {
			return k.dialect.Try(ctx, &s.phys, name)
		})
		switch {
		case err == nil && granted:
			return s, true, nil
		case err == nil:
			k.leaveShared(s)
			return nil, false, nil
		case dead:
			s.lose(err)
			k.leaveShared(s)
		default:
			// The statement failed; what may have come of it is undone, for the
			// others' sake rather than by closing the session.
			k.dropShared(s, name)
			if k.dialect.Classify(err) == dialect.ClassLockTable {
				err = fault("", lockTableFull, ErrUnsupported, err)
			}
			return nil, false, err
		}
	}
	return nil, false, err
}

const lockTableFull = "the server's lock table has no room for more multiplexed locks: raise max_locks_per_transaction, hold fewer, or use leases"

// enterShared gives a shared session, or makes one, and keeps it shared until leaveShared.
func (k *Keeper) enterShared(ctx context.Context, name dialect.Name, req Request) (*session, error) {
	k.mu.Lock()
	for _, s := range k.shared {
		if !s.isClosed() && !s.server.OneLock {
			s.entered++
			k.mu.Unlock()
			return s, nil
		}
	}
	k.mu.Unlock()
	s, err := k.session(ctx, name, req.outcome, req.Try)
	if err != nil {
		return nil, err
	}
	if err = k.supported(s); err != nil {
		k.put(s)
		return nil, err
	}
	k.mu.Lock()
	k.share(s)
	s.entered++
	k.mu.Unlock()
	return s, nil
}

// share has a session be found by those who try for multiplexed locks. Under mu.
func (k *Keeper) share(s *session) {
	if !slices.Contains(k.shared, s) {
		k.shared = append(k.shared, s)
	}
}

// leaveShared ends what enterShared began. A session without locks is not shared
// any more.
func (k *Keeper) leaveShared(s *session) {
	k.mu.Lock()
	s.entered--
	k.unshare(s)
}

// unshare gives a shared session free that carries nothing. It is called under mu,
// and ends that.
func (k *Keeper) unshare(s *session) {
	s.mu.Lock()
	idle := s.entered == 0 && len(s.locks) == 0 && !s.closed
	gone := s.closed
	s.mu.Unlock()
	i := slices.Index(k.shared, s)
	if i >= 0 && (idle || gone) {
		k.shared = slices.Delete(k.shared, i, i+1)
	}
	k.mu.Unlock()
	if i >= 0 && idle {
		k.put(s)
	}
}

// dropShared releases a lock that was, or may have been, granted for nobody, and
// leaves the session.
func (k *Keeper) dropShared(s *session, name dialect.Name) {
	if _, _, err := k.ask(context.Background(), s, func(ctx context.Context) (bool, error) {
		return k.dialect.Release(ctx, &s.phys, name)
	}); err != nil {
		s.lose(err)
	}
	k.leaveShared(s)
}

// hasRoom tells whether the server's lock table has room for one more. Three
// quarters of it are for us: when it is full the server takes no connections.
func (k *Keeper) hasRoom(s *session, key string) error {
	k.mu.Lock()
	asked, capacity, held := k.asked, k.capacity, k.multiplexing.held
	k.mu.Unlock()
	if !asked {
		var err error
		if _, _, err = k.ask(context.Background(), s, func(ctx context.Context) (bool, error) {
			capacity, err = k.dialect.LockCapacity(ctx, &s.phys)
			return true, err
		}); err != nil {
			capacity = 0
		}
		k.mu.Lock()
		k.asked, k.capacity = true, capacity
		k.mu.Unlock()
	}
	if capacity > 0 && held >= capacity*3/4 {
		return fault(key, fmt.Sprintf("this process holds %d of the %d locks that the server's lock table has room for: "+
			"raise max_locks_per_transaction, hold fewer, or use leases", held, capacity), ErrUnsupported)
	}
	return nil
}

// closeShared is Close of a multiplexed lock, which is closing.
func (l *Lock) closeShared(gone, reason error) error {
	k, s := l.keeper, l.sess
	var note error
	if errors.Is(reason, ErrClosed) {
		note = ErrClosed
	}
	l.remark(note)
	l.ctx.endWith(gone)
	if l.reentry {
		if err := l.aroundShared.Err(); errors.Is(err, ErrLost) {
			l.to(stateLost, err)
			note = err
		} else {
			l.to(stateReleased, gone)
		}
		l.tellEnd()
		return note
	}
	k.mu.Lock()
	if _, mine := k.locks[l]; !mine { // lost meanwhile
		k.mu.Unlock()
		l.tellEnd()
		return l.Err()
	}
	delete(k.locks, l)
	k.multiplexing.held--
	r := k.rooms[l.name]
	r.holder, r.busy = nil, true
	t := l.tenure
	t.turns++
	var w *waiter
	if front := r.queue.Front(); front != nil && front.Value.(*waiter).shared && !t.over() && !k.closing {
		w = r.next()
	}
	s.entered++ // it stays shared until the end of this
	k.mu.Unlock()
	k.locksHeld.Add(-1)
	defer k.leaveShared(s)
	s.leave(l)
	if w != nil {
		l.to(stateReleased, gone)
		l.tellEnd()
		k.handedOn(l)
		k.admit(r, w, s, t)
		return note
	}
	released, dead, err := k.ask(context.Background(), s, func(ctx context.Context) (bool, error) {
		return k.dialect.Release(ctx, &s.phys, l.name)
	})
	switch {
	case err == nil && !released:
		err = errNotHeld
	case err != nil || dead:
		s.lose(err)
	}
	if err != nil {
		err = fault(l.key, "", ErrLost, err)
		l.to(stateLost, err)
	} else if !l.to(stateReleased, gone) {
		err = l.Err()
	}
	l.tellEnd()
	k.giveUp(r, nil)
	if err != nil {
		return err
	}
	return note
}
