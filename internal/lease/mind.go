package lease

import (
	"context"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// mind has the timer set that looks after idle lines. Under mu.
func (m *Manager) mind() {
	switch {
	case m.minding || m.closing:
		return
	case m.minder == nil:
		m.minder = time.AfterFunc(m.cfg.Idle/3, m.lookAfter)
	default:
		m.minder.Reset(m.cfg.Idle / 3)
	}
	m.minding = true
}

// lookAfter keeps idle lines alive that carry companions, and closes the others.
func (m *Manager) lookAfter() {
	if !m.join() {
		return
	}
	defer m.running.Done()
	m.mu.Lock()
	var idle []*line
	for _, ln := range m.lines {
		if time.Since(ln.used) < m.cfg.Idle/4 {
			continue
		}
		select {
		case ln.turn <- struct{}{}:
			idle = append(idle, ln)
		default:
		}
	}
	m.mu.Unlock()
	for _, ln := range idle {
		m.mu.Lock()
		useless := ln.carries == 0 && !ln.dead
		if useless {
			m.forget(ln)
		}
		m.mu.Unlock()
		if useless {
			_ = ln.conn.Close()
		} else {
			_ = ln.do(m.ctx, cleanup, func(ctx context.Context, q dialect.Querier, _ dialect.LeaseServer) error {
				_, err := q.QuerySimple(ctx, "SELECT 1")
				return err
			})
		}
		<-ln.turn
	}
	m.mu.Lock()
	m.minding = false
	if len(m.lines) > 0 {
		m.mind()
	}
	m.mu.Unlock()
}
