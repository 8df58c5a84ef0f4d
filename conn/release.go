package conn

import (
	"context"
	"errors"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

var errNotHeld = errors.New("the server said at the release that the session does not hold the lock")

// release hands the lock to the next who waits for it in this process, or gives
// it back to the server. The caller holds the session's io, with nothing open
// on it; release unlocks it. tidy is the session's.
func (k *Keeper) release(l *Lock, tidy bool) error {
	if l.bare {
		return k.unpin(l)
	}
	s := l.sess
	now := time.Now()
	k.mu.Lock()
	if !k.unlist(l) { // lost meanwhile
		k.mu.Unlock()
		s.io.unlock()
		l.tellEnd()
		return l.Err()
	}
	r := l.room
	r.holder, r.busy = nil, true
	t := l.tenure
	t.turns++
	var w *waiter
	if !t.over(now) && !k.closing && (tidy || !s.mustScrub()) && !s.unlocked && !l.xact {
		w = r.next()
	}
	k.mu.Unlock()
	s.leave(l)

	returned := false
	defer s.unwind(&returned)
	defer func() {
		if !returned {
			l.to(stateLost, fault(l.key, "", ErrLost, errUnwound))
			l.tellEnd()
			k.giveUp(r, nil)
		}
	}()
	var err error
	if w == nil {
		if !l.xact && (!s.unlocked || s.mustScrub()) {
			err = k.releaseAt(s, l.name)
		}
		s.unlocked = false
		if err == nil {
			s.closeLate()
		}
	}
	returned = true
	s.io.unlock()
	if err != nil {
		err = fault(l.key, "", ErrLost, err)
		l.to(stateLost, err)
		s.lose(err)
		l.tellEnd()
		k.giveUp(r, nil)
		return err
	}
	if !l.to(stateReleased, nil) {
		err = l.Err() // the session was lost at the same moment
	}
	l.tellEnd()
	if w != nil {
		k.handedOn(l)
		k.admit(r, w, s, t, now)
	} else {
		k.giveUp(r, s)
	}
	return err
}

// releaseAt gives a lock back to the server, and whatever else a holder left on
// the session. An answer that does not come in time is no answer: the caller
// then destroys the session, and the lock with it. Under io.
func (k *Keeper) releaseAt(s *session, name dialect.Name) error {
	defer s.bound(cleanupBound)()
	all := s.mustScrub()
	released := s.unlocked
	dead, err := s.do(context.Background(), func(ctx context.Context) (err error) {
		if !released {
			released, err = k.dialect.Release(ctx, &s.phys, name)
		}
		if err == nil && all {
			err = k.dialect.ReleaseAll(ctx, &s.phys)
		}
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
	s.mu.Lock()
	s.scrub = scrub{}
	s.mu.Unlock()
	return nil
}

func (s *session) mustScrub() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scrub.locks
}

// vacate empties the room of a lock that is gone without having been released.
func (k *Keeper) vacate(l *Lock) {
	k.mu.Lock()
	if !k.unlist(l) {
		k.mu.Unlock()
		return
	}
	if l.shared {
		k.multiplexing.held--
	}
	if l.bare {
		k.mu.Unlock()
		return
	}
	r := l.room
	r.holder, r.busy = nil, true
	k.mu.Unlock()
	k.giveUp(r, nil)
}
