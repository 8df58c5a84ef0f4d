package conn

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// dialTimeout bounds the dial of a lock session, which the contexts of those
// who wait for it do not.
const dialTimeout = 30 * time.Second

// sessionOrder is one who waits for a session.
type sessionOrder struct {
	ready chan sessionAnswer // buffered; one answer
}

type sessionAnswer struct {
	s   *session
	err error
}

// session takes a free session, or dials one. When ctx ends first it returns
// ctx.Err(); a dial under way goes on for the next who needs one.
func (k *Keeper) session(ctx context.Context) (*session, error) {
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
	order := &sessionOrder{ready: make(chan sessionAnswer, 1)}
	k.queue = append(k.queue, order)
	dial := k.opts.MaxSessions <= 0 || len(k.sessions)+k.opening < k.opts.MaxSessions
	if dial {
		k.opening++
	}
	k.mu.Unlock()
	if dial {
		k.spawn(k.open)
	}
	select {
	case a := <-order.ready:
		return a.s, a.err
	case <-ctx.Done():
		k.mu.Lock()
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
		return nil, ctx.Err()
	}
}

// open dials a session for whoever waits for one.
func (k *Keeper) open() {
	ctx, cancel := context.WithTimeout(k.ctx, dialTimeout)
	defer cancel()
	s, err := k.dial(ctx)
	if err == nil {
		k.mu.Lock()
		k.opening--
		k.sessions[s] = struct{}{}
		k.mu.Unlock()
		k.put(s)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.opening--
	if len(k.queue) == 0 {
		return
	}
	if k.dialect.Classify(err) == dialect.ClassServerFull && len(k.sessions) > 0 {
		return // one of them will come free
	}
	k.queue[0].ready <- sessionAnswer{err: fmt.Errorf("lockdb: open a session for locks: %w", err)}
	k.queue = k.queue[1:]
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
	if k.surplus() {
		s.again(surplusTime)
	}
	return true
}

// surplusTime is how long more than MaxIdleSessions stay open with no lock:
// where many locks come and go, closing each session and dialling the next
// would cost more than the locks.
const surplusTime = time.Second

// surplus tells whether there are too many idle sessions. Under mu.
func (k *Keeper) surplus() bool { return len(k.idle) > k.opts.MaxIdleSessions }

// takeSurplus is takeIdle if there are too many.
func (k *Keeper) takeSurplus(s *session) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.surplus() && k.dropIdle(s)
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
	dial := !k.closing && k.opening < len(k.queue) &&
		(k.opts.MaxSessions <= 0 || len(k.sessions)+k.opening < k.opts.MaxSessions)
	if dial {
		k.opening++
	}
	k.mu.Unlock()
	if dial {
		k.spawn(k.open)
	}
}
