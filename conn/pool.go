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
	switch {
	case s.isClosed(): // in the same critical section as what keeps it: lose takes it out again
		k.mu.Unlock()
	case len(k.queue) > 0:
		k.queue[0].ready <- sessionAnswer{s: s}
		k.queue = k.queue[1:]
		k.mu.Unlock()
	case !k.closing && len(k.idle) < k.opts.MaxIdleSessions:
		k.idle = append(k.idle, s)
		k.mu.Unlock()
	default:
		k.mu.Unlock()
		s.close()
	}
}

// takeIdle takes that session out of the idle ones, if it is among them.
func (k *Keeper) takeIdle(s *session) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.Index(k.idle, s)
	if i < 0 {
		return false
	}
	k.idle = slices.Delete(k.idle, i, i+1)
	return true
}

// forget drops a session that is closed; one who waits because of
// MaxSessions may now have another dialled.
func (k *Keeper) forget(s *session) {
	k.mu.Lock()
	delete(k.sessions, s)
	if i := slices.Index(k.idle, s); i >= 0 {
		k.idle = slices.Delete(k.idle, i, i+1)
	}
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
