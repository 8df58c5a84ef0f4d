package conn

import (
	"context"
	"errors"
	"time"
)

// Who waits for a multiplexed lock that is held elsewhere does so on a session of
// his own, so that nobody stands behind him. Where there is none to be had, because
// lockdb_max_sessions is reached, and those that there are carry multiplexed locks,
// which may be held for as long as he is ready to wait, he tries again and again on
// one of these.

// sessionFor gives a session on which to wait for the room's lock. It gives none if
// the lock was had without (done), or to have the caller look again.
func (k *Keeper) sessionFor(r *room) (s *session, done bool, err error) {
	if !k.onlyShared(r) {
		s, err = k.session(k.ctx, r.name, nil, false)
		return s, false, err
	}
	wait, cancel := context.WithTimeout(k.ctx, pollPause)
	defer cancel()
	if s, err = k.session(wait, r.name, nil, false); err == nil || !errors.Is(err, context.DeadlineExceeded) || k.ctx.Err() != nil {
		return s, false, err
	}
	return nil, k.tryBeside(r), nil
}

// onlyShared tells whether a session that comes free is not to be expected, but
// there is one that the first who waits in the room would share.
func (k *Keeper) onlyShared(r *room) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return r.first != nil && r.first.shared && len(k.idle) == 0 && k.limited() && k.sharable() != nil
}

// sharable is a session that takes further multiplexed locks, nil if there is none. Under mu.
func (k *Keeper) sharable() *session {
	for _, s := range k.shared {
		if !s.isClosed() && !s.server.OneLock {
			return s
		}
	}
	return nil
}

// tryBeside tries for the room's lock on a shared session, and gives it to the first
// in the queue.
func (k *Keeper) tryBeside(r *room) (done bool) {
	k.mu.Lock()
	s, w := k.sharable(), r.first
	if s == nil || w == nil || !w.shared {
		k.mu.Unlock()
		return false
	}
	s.entered++
	key := w.key
	k.mu.Unlock()
	t := k.tryShared(s, r.name, key)
	switch {
	case t.granted:
	case t.err != nil && !t.dead:
		k.failOne(r, t.err)
		return false
	default:
		return false
	}
	k.mu.Lock()
	w = r.next()
	if w != nil && !w.shared { // he came meanwhile, and wants a session of his own
		r.pushFront(w)
		w = nil
	}
	k.mu.Unlock()
	if w == nil {
		k.dropShared(s, r.name)
		return false
	}
	now := time.Now()
	k.admit(r, w, s, tenure{since: now}, now)
	k.leaveShared(s)
	return true
}
