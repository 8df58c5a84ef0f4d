package conn

import (
	"container/list"
	"context"
	"database/sql/driver"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// room is where this process waits for one lock. At most one of it is at the
// server for the lock, be it to try, to wait or to release; the others queue,
// first come first served, at no connection each.
//
// States (guarded by the keeper's mu): empty → busy (someone is at the server)
// → held (by a Lock of this process) → busy (releasing) → held or empty. A
// hand-off goes from held to held. An empty room is removed.
type room struct {
	name   dialect.Name
	busy   bool
	holder *Lock
	queue  list.List // of *waiter
	seen   string    // who held the lock at the server, when last looked
}

// waiter is one who waits in a room.
type waiter struct {
	key     string // as the caller spelled it
	parent  context.Context
	since   time.Time
	until   time.Time         // when it gives up, zero if nobody knows
	begin   *driver.TxOptions // InTx's
	outcome *outcome
	shared  bool        // wants it multiplexed
	ready   chan answer // buffered; one answer
	place   *list.Element
	leaving bool // takes what answer comes next, and nothing but an answer
}

type answer struct {
	lock *Lock
	err  error
}

// tenure is how long the process has had the lock from the server through
// hand-offs: it must give other processes their turn.
type tenure struct {
	since time.Time
	turns int
}

// The budget of a tenure. A hand-off costs microseconds and a release and a
// new grant two round trips, so some thousand turns make those negligible; the
// time bounds what others wait when turns are long.
const (
	tenureTurns = 4096
	tenureTime  = 50 * time.Millisecond
)

func (t tenure) over() bool {
	return t.turns >= tenureTurns || time.Since(t.since) >= tenureTime
}

// roomFor finds or makes the room. Under mu.
func (k *Keeper) roomFor(name dialect.Name) *room {
	r := k.rooms[name]
	if r == nil {
		r = &room{name: name}
		k.rooms[name] = r
	}
	return r
}

// sweep removes the room if nobody is in it. Under mu.
func (k *Keeper) sweep(r *room) {
	if !r.busy && r.holder == nil && r.queue.Len() == 0 && k.rooms[r.name] == r {
		delete(k.rooms, r.name)
	}
}

// next takes the first waiter out of the queue. Under mu.
func (r *room) next() *waiter {
	front := r.queue.Front()
	if front == nil {
		return nil
	}
	w := r.queue.Remove(front).(*waiter)
	w.place = nil
	return w
}

// refuseAll ends all waits because the keeper closes. Under mu.
func (k *Keeper) refuseAll() {
	for _, order := range k.queue {
		order.ready <- sessionAnswer{err: ErrClosed}
	}
	k.queue = nil
	for _, r := range k.rooms {
		for w := r.next(); w != nil; w = r.next() {
			w.ready <- answer{err: fault(w.key, "", ErrClosed)}
		}
	}
}

// leaveQueue takes a waiter out who no longer waits; false if his answer has come.
func (k *Keeper) leaveQueue(r *room, w *waiter) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w.place == nil {
		w.leaving = true
		return false
	}
	r.queue.Remove(w.place)
	w.place = nil
	k.sweep(r)
	return true
}

// requeue puts a waiter back to the front whose turn brought nothing; false if
// he no longer waits.
func (k *Keeper) requeue(r *room, w *waiter) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w.leaving || k.closing {
		return false
	}
	w.place = r.queue.PushFront(w)
	return true
}
