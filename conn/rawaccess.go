package conn

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/jackc/pgx/v5"
)

// Raw returns the inner driver's connection: the lock's own on a conn that
// Lock.Conn gave or in a transaction under a lock, else that of the pool. It
// returns nil if there is none to be had (the lock is gone or busy, the server
// cannot be reached).
func (c *conn) Raw() driver.Conn {
	p := c.rawPhys()
	if p == nil {
		return nil
	}
	return p.real
}

// Conn returns the *pgx.Conn, as Raw returns the connection.
func (c pgConn) Conn() *pgx.Conn {
	p := c.rawPhys()
	if p == nil {
		return nil
	}
	return p.pg
}

func (c *conn) rawPhys() *phys {
	if c.raw != nil {
		return &c.raw.lock.sess.phys
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.keeper.opts.TTL)
	defer cancel()
	sc, onLock, err := c.route(ctx)
	switch {
	case err != nil:
		return nil
	case onLock:
		return c.takeRaw(ctx, sc)
	}
	return &c.own
}

// takeRaw gives the lock's session into the user's hands: gate and io stay
// taken until the next call on the conn, or its return, shows that he is done.
func (c *conn) takeRaw(ctx context.Context, sc scope) *phys {
	if _, err := sc.gate().enter(ctx, "a Raw access", c, c.keeper.opts.BusyTimeout); err != nil {
		return nil
	}
	s := sc.lock.sess
	if err := s.io.lock(ctx); err != nil {
		sc.gate().leave()
		return nil
	}
	s.mu.Lock()
	s.lent = !s.closed
	lent := s.lent
	s.mu.Unlock()
	if !lent || sc.check() != nil {
		s.endLoan()
		sc.gate().leave()
		return nil
	}
	sc.gate().occupy()
	c.raw = &sc
	return &s.phys
}

func (c *conn) dropRaw() {
	sc := *c.raw
	c.raw = nil
	s := sc.lock.sess
	s.mu.Lock()
	s.scrub.locks, s.scrub.raw = true, true
	s.mu.Unlock()
	s.lockedTables.Store(true) // nobody saw the statements
	dead := s.dead()
	s.handedBack()
	s.endLoan()
	sc.gate().leave()
	if dead {
		s.lose(errPeerClosed)
	}
}

// endLoan gives io back after a Raw access. It can run under database/sql's
// db.mu, so if there is a connection to close, the keeper does it while it can.
func (s *session) endLoan() {
	s.mu.Lock()
	owed := s.owed
	s.lent, s.owed = false, false
	s.mu.Unlock()
	last := func() {
		if owed {
			s.closeDriver()
		}
		s.io.unlock()
	}
	if !owed || !s.keeper.spawn(last) {
		last()
	}
}

// facade finds our conn below the wrappers of others, which must offer
// Raw() driver.Conn.
func facade(dc any) (*conn, error) {
	for range 16 {
		switch c := dc.(type) {
		case *conn:
			return c, nil
		case pgConn:
			return c.conn, nil
		case interface{ Raw() driver.Conn }:
			dc = c.Raw()
		default:
			return nil, errors.New("not a connection of lockdb's")
		}
	}
	return nil, errors.New("too many wrappers")
}
