package lease

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

const (
	// slice is how long a wait for a companion at the server lasts at a time: a
	// blocked pg_advisory_lock holds a snapshot that CREATE INDEX CONCURRENTLY and
	// vacuum wait for. MySQL makes a second of it.
	slice = 900 * time.Millisecond
	// stuckAfter is how long a row may stay free while somebody has the companion:
	// whoever has it would have taken the row.
	stuckAfter = 250 * time.Millisecond
	// headLook is how often one who has the companion looks at the row, whose
	// holder has none and so cannot wake him.
	headLook = 500 * time.Millisecond
	// queueLook is how often one who waits for the companion does: whoever has it
	// may have stopped, and then nobody is woken by the release of the row.
	queueLook = 800 * time.Millisecond
	// The pause between two looks where there is no companion.
	pollMin = 10 * time.Millisecond
	pollMax = 100 * time.Millisecond
	// longAgo is left of a lease that was released: its expiry is the epoch.
	longAgo = -20 * 365 * 24 * time.Hour
)

// wait is what one who has the turn in a room knows of the row that he waits for.
type wait struct {
	m    *Manager
	room *room

	until      time.Time // when to look again
	freeSince  time.Time // the row has been free since, with that token; or zero
	freeToken  int64
	overtaking bool // the next claim does not look at the companion
	pause      time.Duration
}

// refused notes why a claim was.
func (w *wait) refused(g dialect.Grant) {
	now := time.Now()
	w.overtaking = false
	if g.Known && g.Left > 0 {
		w.freeSince = time.Time{}
		w.until = now.Add(g.Left + time.Millisecond)
		return
	}
	if w.freeSince.IsZero() || w.freeToken != g.Token {
		w.freeSince, w.freeToken = now, g.Token
	}
	w.until = w.freeSince.Add(stuckAfter)
	w.overtaking = !w.until.After(now)
}

// wait waits until it is worth while to claim again.
func (w *wait) wait(ctx context.Context, req Request) error {
	if w.overtaking {
		return ctx.Err()
	}
	m, r := w.m, w.room
	left := max(time.Until(w.until), 0)
	m.mu.Lock()
	if r.comp.alive() {
		m.mu.Unlock()
		return m.sleep(ctx, min(left, headLook))
	}
	if m.plain.Load() {
		m.mu.Unlock()
		return w.poll(ctx, left)
	}
	a := r.await
	if a == nil {
		if a = m.beginAwait(r, req.Companion); a == nil {
			m.mu.Unlock()
			return w.poll(ctx, left)
		}
	}
	m.mu.Unlock()
	t := time.NewTimer(min(left, queueLook))
	defer t.Stop()
	select {
	case <-a.done:
		if a.failed {
			return w.poll(ctx, left)
		}
		return nil
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-m.ctx.Done():
		return ErrClosed
	}
}

// poll waits for a moment, longer each time.
func (w *wait) poll(ctx context.Context, left time.Duration) error {
	w.pause = min(max(w.pause*3/2, pollMin), pollMax)
	return w.m.sleep(ctx, min(left, w.pause/2+rand.N(w.pause)))
}

// awaiting is a wait for a companion at the server, on a line of its own.
type awaiting struct {
	done   chan struct{} // closed when it is over; if it brought the companion, the room has it
	failed bool          // set before
}

// beginAwait starts a wait, if there may be another line. Under mu.
func (m *Manager) beginAwait(r *room, name dialect.Name) *awaiting {
	if m.closing {
		return nil
	}
	select {
	case m.limits.waits <- struct{}{}:
	default:
		return nil
	}
	a := &awaiting{done: make(chan struct{})}
	r.await = a
	m.running.Add(1)
	go func() {
		defer m.running.Done()
		m.await(r, a, name)
	}()
	return a
}

// await waits at the server for as long as somebody of this process wants the
// lease. What comes of a wait that nobody wants any more is given back.
func (m *Manager) await(r *room, a *awaiting, name dialect.Name) {
	ln, err := m.waitLine()
	got := false
	for err == nil && !got && m.wanted(r) {
		err = ln.do(m.ctx, slice+patience, func(ctx context.Context, q dialect.Querier, _ dialect.LeaseServer) (err error) {
			got, err = m.cfg.Dialect.Wait(ctx, q, name, slice)
			return err
		})
		if err != nil && m.fault(err) == dialect.LeaseFaultNoLocks {
			m.plain.Store(true)
		}
	}
	m.mu.Lock()
	var unwanted *companion
	switch {
	case got && !ln.dead && (r.busy || r.held != nil) && !r.comp.alive():
		r.comp, r.tenure = ln.carry(name), tenure{since: time.Now()}
		m.addLine(ln)
	case got && !ln.dead:
		unwanted = ln.carry(name)
		m.mu.Unlock()
		<-ln.turn
		m.free(unwanted) // who comes meanwhile waits for that
		m.mu.Lock()
	}
	r.await = nil
	a.failed = err != nil
	close(a.done)
	m.sweep(r)
	m.mu.Unlock()
	switch {
	case ln == nil:
	case unwanted != nil:
		m.retire(ln)
	case got:
		ln.leave()
	default:
		<-ln.turn
		m.retire(ln)
	}
}

// linger waits for a moment, or until a wait that this process has given up has
// brought the companion.
func (m *Manager) linger(ctx context.Context, r *room) {
	m.mu.Lock()
	a := r.await
	m.mu.Unlock()
	var done chan struct{}
	if a != nil {
		done = a.done
	}
	t := time.NewTimer(pollMin)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	case <-ctx.Done():
	}
}

// wanted tells whether somebody here wants the lease.
func (m *Manager) wanted(r *room) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.closing && (r.busy || r.queue.Len() > 0)
}

// waitLine opens a line for a wait, for which the caller has a token, and its turn.
func (m *Manager) waitLine() (*line, error) {
	c, err := m.db.Conn(m.ctx)
	if err != nil {
		<-m.limits.waits
		return nil, err
	}
	ln := m.newLine(c)
	ln.slot = true
	ln.turn <- struct{}{}
	return ln, nil
}

// retire gives the connection of a line back that carries nothing.
func (m *Manager) retire(ln *line) {
	m.mu.Lock()
	dead := ln.dead
	if !dead {
		m.forget(ln)
	}
	m.mu.Unlock()
	if !dead {
		_ = ln.conn.Close()
	}
}
