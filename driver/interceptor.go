package driver

import (
	"context"
	"database/sql/driver"
	"io"
	"sync"

	"github.com/ngrok/sqlmw"
)

// Intercepted is a connection with a user's interceptor before it. What sqlmw
// answers wrongly is not claimed: it says that every connection is a
// driver.Validator, and panics on an Exec that the driver does not have. For
// IsValid, ResetSession and CheckNamedValue, and for whatever else the driver's
// own connection can do, ask Real.
type Intercepted struct {
	outer sqlmwConn
	real  driver.Conn
	exec  bool // the real connection can Exec without a statement
}

// sqlmwConn is what sqlmw's connection is used for.
type sqlmwConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
}

var _ sqlmwConn = (*Intercepted)(nil)

// Real returns the driver's own connection. It must be used by one goroutine at a
// time, together with the Intercepted, which closes it.
func (c *Intercepted) Real() driver.Conn { return c.real }

// Prepare is PrepareContext without a context, which interceptors do not see.
func (c *Intercepted) Prepare(query string) (driver.Stmt, error) { return c.outer.Prepare(query) }

// PrepareContext prepares a statement.
func (c *Intercepted) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.outer.PrepareContext(ctx, query)
}

// Begin is BeginTx without a context, which interceptors do not see.
func (c *Intercepted) Begin() (driver.Tx, error) {
	return c.outer.Begin()
}

// BeginTx begins a transaction.
func (c *Intercepted) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.outer.BeginTx(ctx, opts)
}

// ExecContext executes a statement; driver.ErrSkip if the driver has no such thing.
func (c *Intercepted) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if !c.exec {
		return nil, driver.ErrSkip
	}
	return c.outer.ExecContext(ctx, query, args)
}

// QueryContext executes a query; driver.ErrSkip if the driver has no such thing.
func (c *Intercepted) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.outer.QueryContext(ctx, query, args)
}

// Ping asks the server for a sign of life; nil if the driver cannot.
func (c *Intercepted) Ping(ctx context.Context) error { return c.outer.Ping(ctx) }

// Close closes the connection.
func (c *Intercepted) Close() error { return c.outer.Close() }

// interceptedConnector opens connections of inner with an interceptor before them.
type interceptedConnector struct {
	inner driver.Connector
	intr  sqlmw.Interceptor
}

// intercept returns c itself if there is no interceptor.
func intercept(c driver.Connector, i sqlmw.Interceptor) driver.Connector {
	if c == nil || i == nil {
		return c
	}
	return &interceptedConnector{inner: c, intr: i}
}

// Connect does what sqlmw's connector does, and keeps the real connection beside.
func (c *interceptedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	tap := &tap{Connector: c.inner}
	parent, err := c.intr.ConnectorConnect(ctx, tap)
	if err != nil {
		return nil, err
	}
	dc, err := sqlmw.Driver(opened{parent}, c.intr).Open("")
	if err != nil {
		_ = parent.Close()
		return nil, err
	}
	outer, ok := dc.(sqlmwConn)
	if !ok {
		return parent, nil // not with the sqlmw that this is built with
	}
	ic := &Intercepted{outer: outer, real: tap.conn(parent)}
	switch parent.(type) {
	//lint:ignore SA1019 sqlmw uses it where there is no ExecerContext
	case driver.ExecerContext, driver.Execer:
		ic.exec = true
	}
	return ic, nil
}

// Driver returns the real driver.
func (c *interceptedConnector) Driver() driver.Driver { return c.inner.Driver() }

// Close closes inner, if that can be closed.
func (c *interceptedConnector) Close() error {
	if closer, ok := c.inner.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// tap sees which connection the real connector gave: an interceptor may return
// another, around it.
type tap struct {
	driver.Connector
	mu   sync.Mutex // guards last; an interceptor may connect on a goroutine of its own
	last driver.Conn
}

func (t *tap) Connect(ctx context.Context) (driver.Conn, error) {
	dc, err := t.Connector.Connect(ctx)
	if err == nil {
		t.mu.Lock()
		t.last = dc
		t.mu.Unlock()
	}
	return dc, err
}

// conn returns the real connection: the last one opened or, if the interceptor
// opened none, what it returned.
func (t *tap) conn(returned driver.Conn) driver.Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		return returned
	}
	return t.last
}

// opened is a driver that opens a connection that is open already: the way to have
// sqlmw wrap one.
type opened struct{ conn driver.Conn }

func (o opened) Open(string) (driver.Conn, error) { return o.conn, nil }
