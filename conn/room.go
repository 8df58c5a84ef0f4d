package conn

import (
	"context"
	"database/sql/driver"
	"sync"
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
	seen   string // who held the lock at the server, when last looked

	// The queue, a list in both directions.
	first, last *waiter
	waiting     int
}

// waiter is one who comes for a lock, and perhaps waits for it in a room.
type waiter struct {
	outcome
	parent context.Context
	until  time.Time         // when it gives up, zero if nobody knows
	begin  *driver.TxOptions // InTx's
	shared bool              // wants it multiplexed
	ready  chan struct{}     // buffered; tells that the answer is there, and is empty again when the call returns
	answer answer            // one; written before ready is told

	// Guarded by the keeper's mu.
	queued        bool
	before, after *waiter // in the queue
	leaving       bool    // takes what answer comes next, and nothing but an answer

	last resolved
}

// resolved is the key that the last call with the waiter was for: mostly the next
// is for the same one, and PostgreSQL's name of it is a SHA-256.
type resolved struct {
	keeper *Keeper
	key    string
	name   dialect.Name
}

func (w *waiter) resolve(k *Keeper, req Request) (dialect.Name, error) {
	if w.last.keeper == k && w.last.key == req.Key && req.Name == nil {
		return w.last.name, nil
	}
	name, err := k.resolve(req)
	if err == nil && req.Name == nil {
		w.last = resolved{k, req.Key, name}
	}
	return name, err
}

// waiters are for use again: a lock that is handed from one to the next costs no
// more than the locks themselves.
var waiters = sync.Pool{New: func() any { return &waiter{ready: make(chan struct{}, 1)} }}

// recycle gives a waiter up whose call has ended: no room and no session's queue
// has it any more.
func (w *waiter) recycle() {
	*w = waiter{ready: w.ready, last: w.last}
	waiters.Put(w)
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

func (t tenure) over(now time.Time) bool {
	return t.turns >= tenureTurns || now.Sub(t.since) >= tenureTime
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
	if !r.busy && r.holder == nil && r.first == nil && k.rooms[r.name] == r {
		delete(k.rooms, r.name)
	}
}

// next takes the first waiter out of the queue. Under mu.
func (r *room) next() *waiter {
	w := r.first
	if w != nil {
		r.remove(w)
	}
	return w
}

// pushBack puts a waiter at the end of the queue. Under mu.
func (r *room) pushBack(w *waiter) {
	w.queue(r.last, nil)
	if r.last != nil {
		r.last.after = w
	} else {
		r.first = w
	}
	r.last = w
	r.waiting++
}

// pushFront puts a waiter at the head of the queue. Under mu.
func (r *room) pushFront(w *waiter) {
	w.queue(nil, r.first)
	if r.first != nil {
		r.first.before = w
	} else {
		r.last = w
	}
	r.first = w
	r.waiting++
}

func (w *waiter) queue(before, after *waiter) {
	w.queued, w.before, w.after = true, before, after
}

// give answers a waiter who is in no queue.
func (w *waiter) give(a answer) {
	w.answer = a
	w.ready <- struct{}{}
}

// remove takes a waiter out of the queue. Under mu.
func (r *room) remove(w *waiter) {
	if w.before != nil {
		w.before.after = w.after
	} else {
		r.first = w.after
	}
	if w.after != nil {
		w.after.before = w.before
	} else {
		r.last = w.before
	}
	w.queued, w.before, w.after = false, nil, nil
	r.waiting--
}

// refuseAll ends all waits because the keeper closes. Under mu.
func (k *Keeper) refuseAll() {
	for _, order := range k.queue {
		order.ready <- sessionAnswer{err: ErrClosed}
	}
	k.queue = nil
	for _, r := range k.rooms {
		for w := r.next(); w != nil; w = r.next() {
			w.give(answer{err: fault(w.key, "", ErrClosed)})
		}
	}
}

// leaveQueue takes a waiter out who no longer waits; false if his answer has come.
func (k *Keeper) leaveQueue(r *room, w *waiter) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !w.queued {
		w.leaving = true
		return false
	}
	r.remove(w)
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
	r.pushFront(w)
	return true
}
