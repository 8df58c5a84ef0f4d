package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"sync/atomic"

	"github.com/lockdb/lockdb/internal/dialect"
	"github.com/lockdb/lockdb/internal/lease"
	"github.com/lockdb/lockdb/internal/sock"
)

// leaseConnector dials the connections on which nothing but lease statements run.
// They are lock sessions as to how they are dialled, and the lease.Manager's pool's.
type leaseConnector struct{ keeper *Keeper }

func (c leaseConnector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, captured := sock.Capture(ctx)
	dc, err := c.keeper.lockConnector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	lc := &leaseConn{phys: newPhys(dc)}
	c.keeper.checker.CompareAndSwap(nil, &lc.phys) // for the conns of Lock.DB that have not dialled
	if s := captured.Conn(); s != nil {
		lc.sock = s
		lc.watch, _ = sock.Watch(s, func() { lc.gone.Store(true) }) // without it the next statement finds out
	}
	return lc, nil
}

func (c leaseConnector) Driver() driver.Driver { return &c.keeper.connector.driver }

// leaseConn is one of these connections.
type leaseConn struct {
	phys
	sock  net.Conn      // nil if the connection was dialled by others
	watch *sock.Watcher // nil where there is none
	gone  atomic.Bool   // the server has closed it

	kept       []keptStmt
	unprepared bool // it prepares no more
}

var (
	_ driver.Conn            = (*leaseConn)(nil)
	_ driver.Validator       = (*leaseConn)(nil)
	_ driver.SessionResetter = (*leaseConn)(nil)
	_ lease.Session          = (*leaseConn)(nil)
	_ dialect.Preparer       = (*leaseConn)(nil)
)

// Querier implements lease.Session.
func (c *leaseConn) Querier() dialect.Querier { return c }

// CanCut implements lease.Session.
func (c *leaseConn) CanCut() bool { return c.sock != nil }

// Cut implements lease.Session.
func (c *leaseConn) Cut() bool {
	if c.sock == nil {
		return false
	}
	c.gone.Store(true)
	_ = c.sock.Close()
	return true
}

// IsValid implements driver.Validator.
func (c *leaseConn) IsValid() bool {
	switch {
	case c.gone.Load():
		return false
	case c.pg != nil:
		return !c.pg.IsClosed() && c.pg.PgConn().TxStatus() == 'I'
	case c.validator != nil:
		return c.validator.IsValid()
	}
	return true
}

// ResetSession implements driver.SessionResetter. pgx's own would ping a
// connection that was idle for a second, at the cost of a round trip to each lease.
func (c *leaseConn) ResetSession(ctx context.Context) error {
	switch {
	case !c.IsValid():
		return driver.ErrBadConn
	case c.pg == nil && c.resetter != nil:
		return c.resetter.ResetSession(ctx)
	}
	return nil
}

func (c *leaseConn) Close() error {
	if c.watch != nil {
		c.watch.Stop()
	}
	return c.dc.Close()
}

var errLeaseConn = errors.New("lockdb: a connection for leases runs nothing else")

func (c *leaseConn) Prepare(string) (driver.Stmt, error) { return nil, errLeaseConn }
func (c *leaseConn) Begin() (driver.Tx, error)           { return nil, errLeaseConn }
