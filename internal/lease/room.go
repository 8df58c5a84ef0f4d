package lease

import (
	"container/list"
	"context"
	"time"
)

// room is where this process waits for one lease. One of it has the turn: it
// claims, or holds, or releases; the others queue, first come first served, at
// no connection each.
//
// States (guarded by the Manager's mu): empty → busy (somebody has the turn) →
// held (by a Lease) → busy (it is being released, or was lost) → busy with the
// next, or empty. An empty room is removed.
type room struct {
	key   string
	busy  bool
	held  *Lease
	queue list.List // of *waiter

	comp   *companion // what this process has of the companion, whoever has the turn
	tenure tenure     // how long it has it
	await  *awaiting  // a wait at the server for it
	seen   Refusal    // who held the lease when last asked
}

// waiter is one who queues.
type waiter struct {
	turn  chan error // buffered; one answer: nil is the turn
	place *list.Element
}

// tenure is how long a process has had the companion: it must give others their turn.
type tenure struct {
	since time.Time
	turns int
}

// The budget of a tenure. A turn within the process saves the release and the
// grant of the companion, which are part of other statements, and the wait of
// who comes next elsewhere: so there is little to be had from a long one.
const (
	tenureTurns = 64
	tenureTime  = 50 * time.Millisecond
)

func (t tenure) over() bool {
	return t.turns >= tenureTurns || time.Since(t.since) >= tenureTime
}

// enter gives the turn in the room of the key, after a wait if need be.
func (m *Manager) enter(ctx context.Context, req Request) (*room, error) {
	m.mu.Lock()
	if m.closing {
		m.mu.Unlock()
		return nil, ErrClosed
	}
	r := m.rooms[req.Key]
	if r == nil {
		r = &room{key: req.Key}
		m.rooms[req.Key] = r
	}
	if !r.busy && r.held == nil {
		r.busy = true
		m.mu.Unlock()
		return r, nil
	}
	if req.Try {
		defer m.mu.Unlock()
		return nil, r.refusal(ErrRefused)
	}
	w := &waiter{turn: make(chan error, 1)}
	w.place = r.queue.PushBack(w)
	m.mu.Unlock()
	req.waits()
	select {
	case err := <-w.turn:
		return r, err
	case <-ctx.Done():
	}
	m.mu.Lock()
	if w.place != nil {
		r.queue.Remove(w.place)
		defer m.mu.Unlock()
		return nil, r.refusal(ctx.Err())
	}
	m.mu.Unlock()
	if err := <-w.turn; err != nil { // it came at the same moment
		return nil, err
	}
	m.leave(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	return nil, r.refusal(ctx.Err())
}

// refusal says who has the lease, for one who waits no longer. Under mu.
func (r *room) refusal(err error) *Refusal {
	seen := r.seen
	if r.held != nil {
		seen.Local = true
	}
	seen.Err = err
	return &seen
}

// next takes the first out of the queue. Under mu.
func (r *room) next() *waiter {
	front := r.queue.Front()
	if front == nil {
		return nil
	}
	w := r.queue.Remove(front).(*waiter)
	w.place = nil
	return w
}

// closeQueue ends all waits. Under mu.
func (r *room) closeQueue() {
	for w := r.next(); w != nil; w = r.next() {
		w.turn <- ErrClosed
	}
}

// leave ends a turn that is not to become a lease, or has been one: it is the
// next one's, with the companion, or the room is left.
func (m *Manager) leave(r *room) {
	m.mu.Lock()
	r.held = nil
	if w := r.next(); w != nil {
		r.busy = true
		if !r.comp.alive() {
			r.comp = nil
		}
		m.mu.Unlock()
		w.turn <- nil
		return
	}
	r.busy = false
	comp := r.takeComp()
	m.sweep(r)
	m.mu.Unlock()
	if comp != nil {
		m.free(comp)
	}
}

// takeComp takes the companion out of the room, if it is there. Under mu.
func (r *room) takeComp() *companion {
	comp := r.comp
	r.comp = nil
	if !comp.alive() {
		return nil
	}
	return comp
}

// sweep removes the room if nobody is in it. Under mu.
func (m *Manager) sweep(r *room) {
	if !r.busy && r.held == nil && r.queue.Len() == 0 && r.await == nil && m.rooms[r.key] == r {
		delete(m.rooms, r.key)
	}
}
