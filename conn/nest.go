package conn

import (
	"context"
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

// nest acquires a lock under the context of outer.
func (k *Keeper) nest(ctx context.Context, outer *Lock, req Request, name dialect.Name) (*Lock, error) {
	l := &Lock{keeper: k, key: req.Key, name: name, sess: outer.sess, outer: outer, part: req.part}
	l.opens(ctx)
	reentry, err := l.reenter()
	switch {
	case err != nil || reentry:
	case outer.heldAroundPins(name):
		err = fault(l.key, "the context holds it on another session than the pinned one: acquire it under the pin's context only", ErrDeadlock)
	case outer.top().xact:
		err = fault(l.key, "the lock of InTx through a pooler is its transaction's: no other can be taken under it", ErrUnsupported)
	default:
		if err = l.sess.takesMore(); err == nil {
			err = k.nestAt(ctx, l, req)
		}
	}
	if err != nil {
		l.ctx.endWith(fault(l.key, "", err))
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
	if l.reentry = l.outer.hasAround(l.name); !l.reentry {
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

// hasAround tells whether l, or a lock around it on its session, is of that name.
// Under the session's mu.
func (l *Lock) hasAround(name dialect.Name) bool {
	return slices.ContainsFunc(l.sess.locks, func(have *Lock) bool {
		if have.part {
			return have.name == name && l.within(have.outer)
		}
		return have.name == name && l.within(have)
	})
}

// heldAroundPins tells whether the name is that of a lock around a pin under which
// l is. Nobody could have it on the pin's session.
func (l *Lock) heldAroundPins(name dialect.Name) (held bool) {
	for around := l.top().aroundPin; around != nil && !held; around = around.top().aroundPin {
		s := around.sess
		s.mu.Lock()
		held = around.hasAround(name)
		s.mu.Unlock()
	}
	return held
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
