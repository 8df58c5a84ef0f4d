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
	makes    *making // of the next of them, nil if nobody does
	held     int     // locks on them
	asked    bool
	capacity int // of the server's lock table for this process; 0 is no limit that is known
}

// sharedOf is how a context tells the innermost multiplexed lock of a keeper.
type sharedOf struct{ keeper *Keeper }

// sharedAround is the multiplexed lock that the request is for, or one of its
// keys, if ctx has it: nobody could have that on another session.
func (k *Keeper) sharedAround(ctx context.Context, req Request, name dialect.Name) *Lock {
	l, _ := ctx.Value(sharedOf{k}).(*Lock)
	for ; l != nil; l = l.aroundShared {
		wants := l.name == name || slices.ContainsFunc(req.more, func(n nestedKey) bool { return n.name == l.name })
		if wants && (req.Shared || l.Err() == nil) {
			return l
		}
	}
	return nil
}

// acquireShared is acquire for a multiplexed lock that ctx does not have.
func (k *Keeper) acquireShared(ctx context.Context, req Request, name dialect.Name) (*Lock, error) {
	around, _ := ctx.Value(sharedOf{k}).(*Lock)
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
	l := &Lock{keeper: k, key: req.Key, name: outer.name, sess: outer.sess, since: time.Now(), shared: true, reentry: true, reentered: outer}
	l.aroundShared, _ = ctx.Value(sharedOf{k}).(*Lock) // others may be between it and outer
	l.opens(ctx)
	return l, nil
}

// attemptShared tries for a free room's lock on a shared session.
func (k *Keeper) attemptShared(ctx context.Context, r *room, w *waiter, req Request) (*Lock, error) {
	wait := ctx
	if req.Timeout > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeoutCause(ctx, max(req.Timeout, req.Timeout+dialGrace), errTimeout) // as attempt does
		defer cancel()
	}
	err := fault(w.key, "", errAcquire, errPeerClosed) // all sessions were dead
	for range k.opts.MaxIdleSessions + 2 {
		s, serr := k.enterShared(wait, r.name, w, req)
		if serr != nil {
			k.giveUp(r, nil)
			return nil, k.explain(ctx, r, w, serr)
		}
		t, here := k.tryWhile(wait, s, r, w)
		switch {
		case !here:
			return nil, k.explain(ctx, r, w, cmp.Or(ctx.Err(), t.err, errTimeout))
		case t.granted:
			now := time.Now()
			l, err := k.install(r, w, s, tenure{since: now}, now)
			k.leaveShared(s)
			switch {
			case err == nil:
				return l, nil
			case !errors.Is(err, errPeerClosed):
				k.giveUp(r, nil)
				return nil, err
			}
		case t.dead:
		case t.err != nil:
			k.giveUp(r, nil)
			return nil, k.explain(ctx, r, w, t.err)
		case req.Try:
			k.giveUp(r, nil)
			return nil, k.explain(ctx, r, w, errTimeout)
		default:
			return k.queueShared(ctx, r, w, req)
		}
	}
	k.giveUp(r, nil)
	return nil, k.explain(ctx, r, w, err)
}

// queueShared leaves the wait for a lock that was refused to a goroutine of the
// keeper's, on a session of its own.
func (k *Keeper) queueShared(ctx context.Context, r *room, w *waiter, req Request) (*Lock, error) {
	k.mu.Lock()
	if k.closing {
		k.mu.Unlock()
		k.giveUp(r, nil)
		return nil, fault(w.key, "", ErrClosed)
	}
	r.pushFront(w)
	k.mu.Unlock()
	k.spawn(func() { k.contend(r, nil) })
	return k.await(ctx, r, w, req.Timeout)
}

// sharedTry is what a try on a shared session brought.
type sharedTry struct {
	granted, dead bool
	err           error
}

// tryWhile is tryShared for as long as ctx lasts. The statement is not broken off
// with ctx: that would cost the others their locks. It is seen through without the
// caller: then here is false, and the room's turn ends with it.
func (k *Keeper) tryWhile(ctx context.Context, s *session, r *room, w *waiter) (t sharedTry, here bool) {
	if ctx.Done() == nil {
		return k.tryShared(s, r.name, w.key), true
	}
	done := make(chan sharedTry, 1)
	key := w.key // the try can outlast the call, and w is another's then
	if !k.spawn(func() { done <- k.tryShared(s, r.name, key) }) {
		k.leaveShared(s)
		k.giveUp(r, nil)
		return sharedTry{err: ErrClosed}, false
	}
	select {
	case t = <-done:
		return t, true
	case <-ctx.Done():
		k.spawn(func() {
			if late := <-done; late.granted {
				k.dropShared(s, r.name)
			}
			k.giveUp(r, nil)
		})
		return t, false
	}
}

// tryShared asks the server once, on a shared session that was entered. If the
// lock was granted the caller calls leaveShared when it is in the session's ledger.
func (k *Keeper) tryShared(s *session, name dialect.Name, key string) (t sharedTry) {
	if err := k.hasRoom(s, key); err != nil {
		k.leaveShared(s)
		return sharedTry{err: err}
	}
	t.granted, t.dead, t.err = k.ask(context.Background(), s, func(ctx context.Context) (bool, error) {
		return k.dialect.Try(ctx, &s.phys, name)
	})
	switch {
	case t.err == nil && t.granted:
		return t
	case t.err == nil:
		k.leaveShared(s)
	case t.dead:
		s.lose(t.err)
		k.leaveShared(s)
	default:
		// The statement failed; what may have come of it is undone, for the
		// others' sake rather than by closing the session.
		k.dropShared(s, name)
		if k.dialect.Classify(t.err) == dialect.ClassLockTable {
			t.err = fault("", lockTableFull, ErrUnsupported, t.err)
		}
	}
	t.granted = false
	return t
}

const lockTableFull = "the server's lock table has no room for more multiplexed locks: raise max_locks_per_transaction, hold fewer, or use leases"

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
		_, dead, err := k.ask(context.Background(), s, func(ctx context.Context) (_ bool, err error) {
			capacity, err = k.dialect.LockCapacity(ctx, &s.phys)
			return true, err
		})
		if err != nil {
			capacity = 0
		}
		k.mu.Lock()
		k.asked, k.capacity = !dead, capacity
		k.mu.Unlock()
	}
	if capacity > 0 && held >= capacity*3/4 {
		return fault(key, fmt.Sprintf("this process holds %d of the %d locks that the server's lock table has room for: "+
			"raise max_locks_per_transaction, hold fewer, or use leases", held, capacity), ErrUnsupported)
	}
	return nil
}

// closeShared is Close of a multiplexed lock, which is closing.
func (l *Lock) closeShared(gone *Error, reason error) error {
	k, s := l.keeper, l.sess
	var note error
	if errors.Is(reason, ErrClosed) {
		note = ErrClosed
	}
	l.remark(note)
	l.ctx.endWith(gone)
	if l.reentry {
		if err := l.reentered.Err(); errors.Is(err, ErrLost) {
			l.to(stateLost, err)
			note = err
		} else {
			l.to(stateReleased, gone)
		}
		l.tellEnd()
		return note
	}
	k.mu.Lock()
	if !k.unlist(l) { // lost meanwhile
		k.mu.Unlock()
		l.tellEnd()
		return l.Err()
	}
	k.multiplexing.held--
	r := l.room
	r.holder, r.busy = nil, true
	t, now := l.tenure, time.Now()
	t.turns++
	var w *waiter
	if r.first != nil && r.first.shared && !t.over(now) && !k.closing {
		w = r.next()
	}
	s.entered++ // it stays shared until the end of this
	k.mu.Unlock()
	defer k.leaveShared(s)
	s.leave(l)
	if w != nil {
		l.to(stateReleased, gone)
		l.tellEnd()
		k.handedOn(l)
		k.admit(r, w, s, t, now)
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
