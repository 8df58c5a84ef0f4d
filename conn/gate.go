package conn

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// gate lets one statement at a time through, first come first served. A
// statement that leaves a result set or a transaction behind stays inside
// until that is closed.
//
// States: free → passing (a statement runs) → free, or → occupied (its result
// set or transaction is open) → free; closed from any of them, for good.
type gate struct {
	mu       sync.Mutex // guards what follows; nothing is called under it
	inside   string     // what is inside, "" when free
	since    time.Time
	by       *conn // through which it came
	occupied bool
	queue    []*gateWaiter
	err      error // not nil once closed
}

// errInVain is for who would wait for what only he could end.
var errInVain = errors.New("it cannot come free")

type gateWaiter struct {
	what    string
	by      *conn
	granted chan error // buffered; one answer
}

// enter waits for its turn. While a result set or a transaction occupies the
// gate it waits no longer than patience, and then returns what occupies it. What
// came through the same conn it does not wait for: database/sql has that locked
// until the call returns, for the result set's Next and Close as well.
func (g *gate) enter(ctx context.Context, what string, by *conn, patience time.Duration) (occupant string, err error) {
	g.mu.Lock()
	if g.err != nil {
		defer g.mu.Unlock()
		return "", g.err
	}
	if g.inside == "" {
		g.inside, g.since, g.by, g.occupied = what, time.Now(), by, false
		g.mu.Unlock()
		return "", nil
	}
	if g.occupied && by != nil && g.by == by {
		g.mu.Unlock()
		return g.occupant(), errInVain
	}
	w := &gateWaiter{what: what, by: by, granted: make(chan error, 1)}
	g.queue = append(g.queue, w)
	g.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case err := <-w.granted:
			return "", err
		case <-ctx.Done():
			return "", g.withdraw(w, ctx.Err())
		case <-timer.C:
			if occupant := g.occupant(); occupant != "" {
				return occupant, g.withdraw(w, ErrBusy)
			}
			timer.Reset(max(patience, 10*time.Millisecond))
		}
	}
}

// withdraw leaves the queue; if the turn came meanwhile it is passed on.
func (g *gate) withdraw(w *gateWaiter, err error) error {
	g.mu.Lock()
	select {
	case granted := <-w.granted:
		g.mu.Unlock()
		if granted == nil {
			g.leave()
		}
	default:
		g.queue = slices.DeleteFunc(g.queue, func(have *gateWaiter) bool { return have == w })
		g.mu.Unlock()
	}
	return err
}

func (g *gate) occupant() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.occupied {
		return ""
	}
	return g.inside + ", open for " + time.Since(g.since).Round(time.Millisecond).String()
}

// occupy says that what is inside outlives its call.
func (g *gate) occupy() {
	g.mu.Lock()
	g.occupied = true
	g.mu.Unlock()
}

// leave lets the next one in.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside, g.by, g.occupied = "", nil, false
	if len(g.queue) > 0 && g.err == nil {
		w := g.queue[0]
		g.queue = slices.Delete(g.queue, 0, 1)
		g.inside, g.since, g.by = w.what, time.Now(), w.by
		w.granted <- nil
	}
}

// close refuses all who wait and who will come. Who is inside stays inside.
func (g *gate) close(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return
	}
	g.err = err
	for _, w := range g.queue {
		w.granted <- err
	}
	g.queue = nil
}
