package conn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
	"github.com/lockdb/lockdb/internal/monotime"
)

// dialTimeout bounds the dial of a lock session, which the contexts of those
// who wait for it do not.
const dialTimeout = 30 * time.Second

// dialLate is how long a dial may be under way before who comes next has a
// dial of his own: the server that it was for may be gone, and another one there.
const dialLate = 2 * time.Second

// askFullAgain is how often a server that takes no more connections is asked
// again while someone waits for a session: others may have left meanwhile.
const askFullAgain = time.Second

// errOpen is that a session could not be opened.
var errOpen = errors.New("lockdb: open a session for locks")

// limited tells whether lockdb_max_sessions is reached. Under mu.
func (k *Keeper) limited() bool {
	return k.opts.MaxSessions > 0 && len(k.sessions)+k.opening+k.testing >= k.opts.MaxSessions
}

// wanted tells whether to dial for those who wait, and counts the dial. One for
// each is enough, unless the last one takes so long that it may never succeed.
// Under mu.
func (k *Keeper) wanted() bool {
	late := len(k.queue) > 0 && monotime.Now()-k.dialled > dialLate
	if k.closing || k.opening >= len(k.queue) && !late || k.limited() {
		return false
	}
	k.opening++
	k.dialled = monotime.Now()
	return true
}

// open dials a session for whoever waits for one.
func (k *Keeper) open() {
	ctx, cancel := context.WithTimeout(k.ctx, dialTimeout)
	defer cancel()
	k.opened(k.dial(ctx))
}

// opened takes what a dial brought.
func (k *Keeper) opened(s *session, err error) {
	k.mu.Lock()
	k.opening--
	if err != nil {
		next := k.dialFailed(fmt.Errorf("%w: %w", errOpen, err))
		k.mu.Unlock()
		if next != nil {
			k.spawn(next)
		}
		return
	}
	k.full = nil
	if s.isClosed() {
		// It was lost before it was known here, and so will not be forgotten any
		// more: close would wait for it for ever.
		dial := k.wanted()
		k.mu.Unlock()
		if dial {
			k.spawn(k.open)
		}
		return
	}
	k.sessions[s] = struct{}{}
	k.mu.Unlock()
	k.put(s)
}

// dialFailed answers those whom a failed dial leaves without hope, and returns
// what is to be done for the others. Nobody may be left who waits for nothing.
// Under mu.
func (k *Keeper) dialFailed(err error) (next func()) {
	k.full = nil
	full := k.dialect.Classify(err) == dialect.ClassServerFull
	switch {
	case len(k.queue) == 0:
		return nil
	case len(k.sessions)+k.opening == 0:
		k.refuseOrders(err, func(*sessionOrder) bool { return true })
		return nil
	case full: // one of ours will come free
		k.full = err
		k.refuseOrders(err, func(o *sessionOrder) bool { return o.try })
		for _, o := range k.queue {
			select {
			case o.starves <- struct{}{}:
			default: // it knows
			}
		}
		if k.asking || len(k.queue) == 0 {
			return nil
		}
		k.asking = true
		return k.askAgain
	}
	first := k.queue[0]
	k.refuseOrders(err, func(o *sessionOrder) bool { return o == first })
	if k.wanted() {
		return k.open
	}
	return nil
}

// refuseOrders answers orders with an error. Under mu.
func (k *Keeper) refuseOrders(err error, which func(*sessionOrder) bool) {
	k.queue = slices.DeleteFunc(k.queue, func(o *sessionOrder) bool {
		if !which(o) {
			return false
		}
		o.ready <- sessionAnswer{err: err}
		return true
	})
}

// askAgain dials a server that was full, after a while.
func (k *Keeper) askAgain() {
	select {
	case <-time.After(askFullAgain):
	case <-k.ctx.Done():
	}
	k.mu.Lock()
	k.asking = false
	dial := k.wanted()
	k.mu.Unlock()
	if dial {
		k.open()
	}
}

// reserve counts a connection of the self-test's, if the limit leaves room.
func (k *Keeper) reserve() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closing || k.limited() {
		return false
	}
	k.testing++
	return true
}

func (k *Keeper) unreserve() {
	k.mu.Lock()
	k.testing--
	dial := k.wanted()
	k.mu.Unlock()
	if dial {
		k.spawn(k.open)
	}
}
