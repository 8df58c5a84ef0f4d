package lease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// limits are how many connections there may be for what.
type limits struct {
	carriers int           // lines for claims and the companions that they take
	waits    chan struct{} // a token each: lines that wait for a companion, or did
	loose    chan struct{} // a token each: statements that need no companion
	all      int
}

// renewals have connections beyond the tokens, so that they wait for nobody.
const renewals = 4

func limitsFor(n int) limits {
	share, waits := 4, 16
	if n > 0 {
		share = min(4, max(1, (n-renewals)/4))
		waits = max(0, n-renewals-2*share)
	}
	return limits{carriers: share, waits: make(chan struct{}, waits), loose: make(chan struct{}, share), all: renewals + 2*share + waits}
}

// idleConns is how many connections are kept without work.
const idleConns = 2

// openPool makes the pool that all connections come from.
func (m *Manager) openPool() *sql.DB {
	db := sql.OpenDB(connector{m})
	db.SetMaxOpenConns(m.limits.all)
	db.SetMaxIdleConns(idleConns)
	db.SetConnMaxIdleTime(m.cfg.Idle / 3)
	return db
}

// connector prepares the connections that it dials.
type connector struct{ m *Manager }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	dc, err := c.m.cfg.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := dc.(Session)
	if !ok {
		_ = dc.Close()
		return nil, fmt.Errorf("lockdb: a connection for leases is a %T", dc)
	}
	server, err := c.m.cfg.Dialect.Leases(c.m.cfg.Table).Setup(ctx, inner.Querier(), c.m.cfg.Idle)
	if err != nil {
		_ = dc.Close()
		return nil, fmt.Errorf("prepare a connection for leases: %w", err)
	}
	c.m.server.Store(&server)
	if server.Pooled {
		c.m.plain.Store(true)
	}
	s := &session{Session: inner, server: server, m: c.m}
	c.m.mu.Lock()
	c.m.sessions[s] = struct{}{}
	c.m.mu.Unlock()
	return s, nil
}

func (c connector) Driver() driver.Driver { return c.m.cfg.Connector.Driver() }

// statement is what runs on a connection.
type statement func(ctx context.Context, q dialect.Querier, s dialect.LeaseServer) error

// patience is how long a statement may take that should take one round trip and
// at most a wait for a row lock. cleanup bounds what is done for nobody who waits.
const (
	patience = 10 * time.Second
	cleanup  = 5 * time.Second
)

// on runs the statement on a connection, within limit; the end of ctx leaves it
// grace. dead: the connection did not survive it.
func (m *Manager) on(ctx context.Context, limit time.Duration, c *sql.Conn, f statement) (dead bool, err error) {
	rerr := c.Raw(func(dc any) error {
		s := dc.(*session)
		inner, stop := s.limit(ctx, limit)
		err = f(inner, s.Querier(), s.server)
		late := inner.Err() != nil
		cut := stop()
		if cut || late {
			m.distrustIdle()
		}
		dead = cut || err != nil && (m.fault(err) == dialect.LeaseFaultOther || !s.IsValid())
		if dead {
			return driver.ErrBadConn // closes it
		}
		return nil
	})
	if err == nil && rerr != nil && !dead {
		return true, rerr // the connection had been closed
	}
	return dead, err
}

// distrustIdle closes the connections that are idle: one of the pool did not answer
// in time, and they may have died with it, without a word, so that each would cost
// those who come next as long again.
func (m *Manager) distrustIdle() {
	m.db.SetMaxIdleConns(0)
	m.db.SetMaxIdleConns(idleConns)
}

func (m *Manager) fault(err error) dialect.LeaseFault {
	switch {
	case errors.Is(err, dialect.ErrNoLeaseTable):
		return dialect.LeaseFaultNoTable
	case errors.Is(err, dialect.ErrLeaseTableShape):
		return dialect.LeaseFaultShape
	case errors.Is(err, dialect.ErrMoved):
		return dialect.LeaseFaultRefused
	case errors.Is(err, errLineBusy):
		return dialect.LeaseFaultRetry
	}
	return m.cfg.Dialect.Leases(m.cfg.Table).Fault(err)
}

// attempts is how often a statement is sent that meets a dead connection, or
// another transaction.
const attempts = 4

// loosely runs the statement on any connection, and again if that was dead, or
// met another transaction: f must do no harm if it is run twice.
func (m *Manager) loosely(ctx context.Context, limit time.Duration, f statement) error {
	select {
	case m.limits.loose <- struct{}{}:
		defer func() { <-m.limits.loose }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return m.anywhere(ctx, limit, true, f)
}

// anywhere is loosely for renewals, which wait for nobody.
func (m *Manager) anywhere(ctx context.Context, limit time.Duration, again bool, f statement) (err error) {
	over := time.Now().Add(limit)
	for i := range attempts {
		var c *sql.Conn
		left := time.Until(over)
		if c, err = m.db.Conn(ctx); err != nil {
			ln := m.freeLine()
			if ln == nil {
				return err
			}
			defer ln.leave()
			if ctx.Err() != nil {
				return err
			}
			return ln.do(ctx, left, f) // the server takes no more connections, perhaps, and this one is there
		}
		var dead bool
		if again && i == 0 {
			left /= 2 // should the connection have died without a word, there is time for another one
		}
		dead, err = m.on(ctx, left, c, f)
		_ = c.Close()
		if err == nil || ctx.Err() != nil || time.Now().After(over) || !dead && !(again && m.fault(err) == dialect.LeaseFaultRetry) {
			return err
		}
	}
	return err
}

// later is loosely for what nobody waits for.
func (m *Manager) later(f statement) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanup)
	defer cancel()
	return m.loosely(ctx, cleanup, f)
}

func (m *Manager) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-m.ctx.Done():
		return ErrClosed
	}
}
