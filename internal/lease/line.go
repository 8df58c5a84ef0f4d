package lease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"time"
)

// line is a connection that carries companions, or may. Its statements run one
// at a time.
type line struct {
	m    *Manager
	conn *sql.Conn
	turn chan struct{} // holds a token while a statement runs

	// Guarded by the Manager's mu:
	carries int       // companions on it
	dead    bool      // and with it its companions
	slot    bool      // it has a token of limits.waits
	pending int       // who waits for its turn
	used    time.Time // when last
}

var (
	errLineDead = errors.New("the connection is gone")
	errLineBusy = errors.New("the connections for leases are busy, since many wait for rows that others keep")
)

func (m *Manager) newLine(c *sql.Conn) *line {
	return &line{m: m, conn: c, turn: make(chan struct{}, 1), used: time.Now()}
}

// pick gives a line whose turn the caller has: a free one, or a new one, or the
// one that the fewest wait for.
func (m *Manager) pick(ctx context.Context) (*line, error) {
	var failed error
	for mayDial := true; ; {
		m.mu.Lock()
		if m.closing {
			m.mu.Unlock()
			return nil, ErrClosed
		}
		for _, ln := range m.lines {
			select {
			case ln.turn <- struct{}{}:
				m.mu.Unlock()
				return ln, nil
			default:
			}
		}
		if mayDial && len(m.lines)+m.dialling < m.limits.carriers {
			ln, err := m.dial(ctx)
			switch {
			case err == nil:
				return ln, nil
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case !m.hasLines():
				return nil, err
			}
			mayDial, failed = false, err // those that there are must do, or those that others dial
			continue
		}
		if len(m.lines) == 0 {
			if m.dialling == 0 { // they have failed, too
				m.mu.Unlock()
				return nil, failed
			}
			dialled := m.dialled
			m.mu.Unlock()
			select {
			case <-dialled:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		ln := slices.MinFunc(m.lines, func(a, b *line) int { return a.pending - b.pending })
		ln.pending++
		m.mu.Unlock()
		err := ln.take(ctx, patience)
		m.mu.Lock()
		ln.pending--
		m.mu.Unlock()
		return ln, err
	}
}

// freeLine gives a line that is not in use, whose turn the caller has then; nil if
// there is none.
func (m *Manager) freeLine() *line {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ln := range m.lines {
		select {
		case ln.turn <- struct{}{}:
			return ln
		default:
		}
	}
	return nil
}

// take waits for the line's turn, for at most limit.
func (ln *line) take(ctx context.Context, limit time.Duration) error {
	select {
	case ln.turn <- struct{}{}:
		return nil
	default:
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case ln.turn <- struct{}{}:
		return nil
	case <-t.C:
		return errLineBusy
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dial opens a line whose turn the caller has then. It is called under mu, and
// ends that.
func (m *Manager) dial(ctx context.Context) (*line, error) {
	if m.dialling == 0 {
		m.dialled = make(chan struct{})
	}
	m.dialling++
	m.mu.Unlock()
	c, err := m.db.Conn(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dialling--
	close(m.dialled)
	m.dialled = make(chan struct{})
	if err != nil {
		return nil, err
	}
	ln := m.newLine(c)
	ln.turn <- struct{}{}
	m.addLine(ln)
	return ln, nil
}

func (m *Manager) hasLines() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.lines)+m.dialling > 0
}

// addLine puts a line among those that pick finds. Under mu.
func (m *Manager) addLine(ln *line) {
	m.lines = append(m.lines, ln)
	m.mind()
}

// do runs the statement on a line whose turn the caller has, and keeps.
func (ln *line) do(ctx context.Context, limit time.Duration, f statement) error {
	ln.m.mu.Lock()
	dead := ln.dead
	ln.m.mu.Unlock()
	if dead {
		return errLineDead
	}
	dead, err := ln.m.on(ctx, limit, ln.conn, f)
	if dead {
		ln.drop()
	} else {
		ln.m.mu.Lock()
		ln.used = time.Now()
		ln.m.mu.Unlock()
	}
	return err
}

// run waits for the turn and runs the statement, each within limit.
func (ln *line) run(ctx context.Context, limit time.Duration, f statement) error {
	if err := ln.take(ctx, limit); err != nil {
		return err
	}
	defer ln.leave()
	return ln.do(ctx, limit, f)
}

// leave ends a turn. A line that carries nothing goes if there are enough others.
func (ln *line) leave() {
	m := ln.m
	m.mu.Lock()
	spare := !ln.dead && ln.carries == 0 && ln.slot
	if spare && len(m.lines) <= m.limits.carriers {
		m.freeSlot(ln) // it is one of the carriers now
		spare = false
	}
	if spare {
		m.forget(ln)
	}
	m.mu.Unlock()
	if spare {
		_ = ln.conn.Close()
	}
	<-ln.turn
}

// drop ends a line whose connection is dead, or must not be used again: what it
// carries goes with it. The caller has its turn.
func (ln *line) drop() {
	m := ln.m
	m.mu.Lock()
	if !ln.dead {
		m.forget(ln)
	}
	m.mu.Unlock()
	_ = ln.conn.Raw(func(any) error { return driver.ErrBadConn }) // so that the pool does not keep it
	_ = ln.conn.Close()
}

// forget takes a line out of use. Under mu.
func (m *Manager) forget(ln *line) {
	ln.dead = true
	m.companions -= ln.carries
	ln.carries = 0
	m.freeSlot(ln)
	m.lines = slices.DeleteFunc(m.lines, func(have *line) bool { return have == ln })
}

func (m *Manager) freeSlot(ln *line) {
	if ln.slot {
		ln.slot = false
		<-m.limits.waits
	}
}
