package lease

import (
	"context"
	"errors"

	"github.com/lockdb/lockdb/internal/dialect"
)

// companion is a companion that this process has.
type companion struct {
	line *line
	name dialect.Name
}

// alive tells whether c is one, and is still there. Under mu.
func (c *companion) alive() bool { return c != nil && !c.line.dead }

// carry notes that a companion has come to the line. Under mu.
func (ln *line) carry(name dialect.Name) *companion {
	ln.carries++
	ln.m.companions++
	return &companion{line: ln, name: name}
}

// uncarry notes that it was released. Under mu.
func (c *companion) uncarry() {
	if c.line.dead {
		return
	}
	c.line.carries--
	c.line.m.companions--
}

// free releases a companion that goes with no statement of its lease.
func (m *Manager) free(c *companion) {
	if c.line.take(context.Background(), cleanup) == nil {
		m.freeNow(c)
		return
	}
	// Others have the line for so long. The companion would stay on it for ever.
	m.spawn(func() {
		select {
		case c.line.turn <- struct{}{}:
			m.freeNow(c)
		case <-m.ctx.Done(): // Close ends the line
		}
	})
}

// freeNow is free for a caller who has the line's turn, which ends.
func (m *Manager) freeNow(c *companion) {
	defer c.line.leave()
	freed := false
	err := c.line.do(context.Background(), cleanup, func(ctx context.Context, q dialect.Querier, _ dialect.LeaseServer) (err error) {
		freed, err = m.cfg.Dialect.Release(ctx, q, c.name)
		return err
	})
	if err != nil && !errors.Is(err, errLineDead) || err == nil && !freed {
		c.line.drop() // nobody knows what it carries
		return
	}
	m.mu.Lock()
	c.uncarry()
	m.mu.Unlock()
}
