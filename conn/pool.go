package conn

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// sessionOrder is one who waits for a session.
type sessionOrder struct {
	name  dialect.Name       // of the lock that it is for
	try   bool               // does not wait for one in use
	ready chan sessionAnswer // buffered; one answer

	outcome *outcome      // of the call that waits; nil if it is the keeper
	starves chan struct{} // buffered: no dial is under way for it
}

type sessionAnswer struct {
	s   *session
	err error
}

// starved is the error of one who got no session.
type starved struct {
	why string
	err error
}

func (e *starved) Error() string { return e.why }
func (e *starved) Unwrap() error { return e.err }

// session takes a free session, or dials one, or waits for one in use to come
// free, first come first served; with try it does not do that. When ctx ends
// first its error is ctx's; a dial under way goes on for the next who needs one.
func (k *Keeper) session(ctx context.Context, name dialect.Name, o *outcome, try bool) (*session, error) {
	k.mu.Lock()
	if k.closing {
		k.mu.Unlock()
		return nil, ErrClosed
	}
	if n := len(k.idle); n > 0 {
		s := k.idle[n-1]
		k.idle = k.idle[:n-1]
		k.mu.Unlock()
		return s, nil
	}
	if try && k.opening == 0 && k.limited() {
		defer k.mu.Unlock()
		return nil, &starved{k.noSession(), errTimeout}
	}
	order := &sessionOrder{name: name, try: try, ready: make(chan sessionAnswer, 1), outcome: o, starves: make(chan struct{}, 1)}
	k.queue = append(k.queue, order)
	dial := k.wanted()
	if k.opening < len(k.queue) {
		order.starves <- struct{}{}
	}
	k.mu.Unlock()
	if dial {
		k.spawn(k.open)
	}
	for {
		select {
		case a := <-order.ready:
			return a.s, a.err
		case <-order.starves:
			if o != nil {
				o.waits()
			}
		case <-ctx.Done():
			return nil, k.cancelOrder(order, ctx.Err())
		}
	}
}

// cancelOrder gives up the wait for a session.
func (k *Keeper) cancelOrder(order *sessionOrder, err error) error {
	k.mu.Lock()
	why := k.noSession()
	i := slices.Index(k.queue, order)
	if i >= 0 {
		k.queue = slices.Delete(k.queue, i, i+1)
	}
	k.mu.Unlock()
	if i < 0 {
		if a := <-order.ready; a.s != nil {
			k.put(a.s)
		}
	}
	return &starved{why, err}
}

// noSession says why there is no session at hand. Under mu.
func (k *Keeper) noSession() string {
	switch {
	case k.full != nil:
		return fmt.Sprintf("no session for it: the server takes no more connections (%v), and of the %d lock sessions here none came free", k.full, len(k.sessions))
	case k.opening == 0 && k.limited():
		return fmt.Sprintf("no session for it: all %d lock sessions that lockdb_max_sessions allows are in use", k.opts.MaxSessions)
	}
	return "no session for it: one was being opened"
}

// put gives a free session to the next who waits for one, or keeps it, or
// closes it. The caller does not hold its io.
func (k *Keeper) put(s *session) {
	k.mu.Lock()
	kept := k.keep(s)
	k.mu.Unlock()
	if !kept {
		s.close()
	}
}

// keep is put, but leaves the closing to the caller if it returns false. Under mu.
func (k *Keeper) keep(s *session) bool {
	switch {
	case s.isClosed(): // in the same critical section as what keeps it: lose takes it out again
		return true
	case len(k.queue) > 0:
		k.queue[0].ready <- sessionAnswer{s: s}
		k.queue = k.queue[1:]
		return true
	case k.closing || k.opts.MaxIdleSessions <= 0:
		return false
	}
	k.idle = append(k.idle, s)
	if len(k.idle) > k.opts.MaxIdleSessions {
		s.again(surplusTime)
	}
	return true
}

// surplusTime is how long more than MaxIdleSessions stay open with no lock:
// where many locks come and go, closing each session and dialling the next
// would cost more than the locks. It is also how long a server is taken for
// unsupported before it is asked again.
const surplusTime = time.Second

// surplus tells whether an idle session is one too many, or useless. Under mu.
func (k *Keeper) surplus(s *session) bool {
	return len(k.idle) > k.opts.MaxIdleSessions || s.server.Unsupported != "" && !s.server.Pooler
}

// takeSurplus is takeIdle for such a session.
func (k *Keeper) takeSurplus(s *session) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.surplus(s) && k.dropIdle(s)
}

// takeIdle takes that session out of the idle ones, if it is among them.
func (k *Keeper) takeIdle(s *session) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dropIdle(s)
}

// dropIdle is takeIdle under mu.
func (k *Keeper) dropIdle(s *session) bool {
	i := slices.Index(k.idle, s)
	if i >= 0 {
		k.idle = slices.Delete(k.idle, i, i+1)
	}
	return i >= 0
}

// forget drops a session that is closed; one who waits because of
// MaxSessions may now have another dialled.
func (k *Keeper) forget(s *session) {
	k.mu.Lock()
	delete(k.sessions, s)
	k.dropIdle(s)
	k.shared = slices.DeleteFunc(k.shared, func(have *session) bool { return have == s })
	dial := k.wanted()
	k.mu.Unlock()
	if dial {
		k.spawn(k.open)
	}
}
