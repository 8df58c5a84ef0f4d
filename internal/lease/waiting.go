package lease

import (
	"context"
	"sync"
)

// waiting is the context of a call that waits for a lease: it ends with the caller's,
// and when the Manager is told that waits are over. Few calls come to wait, so only
// those that look at Done pay for it; a statement under way is hurried without.
type waiting struct {
	context.Context // the caller's
	end             context.Context

	mu     sync.Mutex      // guards what follows
	merged context.Context // nil until somebody looks at Done
	free   func()
	over   bool // there will be none
}

// Waiting returns a context for calls of the Manager that ends with ctx, and when
// waits are over. done ends it, too, and frees what it has.
func (m *Manager) Waiting(ctx context.Context) (w context.Context, done func()) {
	c := &waiting{Context: ctx, end: m.cfg.Waits}
	return c, c.done
}

// Done implements context.Context.
func (c *waiting) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.over:
		return c.Context.Done() // whoever asks so late waits for nothing
	case c.merged == nil:
		ctx, cancel := context.WithCancel(c.Context)
		unend := context.AfterFunc(c.end, cancel)
		c.merged, c.free = ctx, func() { unend(); cancel() }
	}
	return c.merged.Done()
}

// Err implements context.Context. It may know of the end a moment before Done does,
// but not after: package context panics then.
func (c *waiting) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if err := c.end.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.merged == nil {
		return nil
	}
	return c.merged.Err()
}

func (c *waiting) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over = c.merged == nil; !c.over {
		c.free()
	}
}

// hurryWaits leaves the statements under way of those who wait no more time than
// grace: waits are over.
func (m *Manager) hurryWaits() {
	if !m.join() {
		return
	}
	defer m.running.Done()
	m.mu.Lock()
	sessions := make([]*session, 0, len(m.sessions))
	for s := range m.sessions {
		sessions = append(sessions, s)
	}
	m.mu.Unlock()
	for _, s := range sessions {
		s.hurryWait()
	}
}
