package driver

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
)

// fakeConnector opens fakeConns.
type fakeConnector struct {
	closed *int
	open   func() driver.Conn
}

func (c fakeConnector) Connect(context.Context) (driver.Conn, error) {
	if c.open != nil {
		return c.open(), nil
	}
	return &fakeConn{}, nil
}
func (c fakeConnector) Driver() driver.Driver { return fakeDriver{} }
func (c fakeConnector) Close() error {
	if c.closed != nil {
		*c.closed++
	}
	return nil
}

type fakeDriver struct{}

func (fakeDriver) Open(string) (driver.Conn, error) { return &fakeConn{}, nil }

// fakeConn is a connection with every interface, which counts.
type fakeConn struct {
	calls  []string
	reset  int
	closed int
}

func (c *fakeConn) note(call string) { c.calls = append(c.calls, call) }

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("no Prepare") }
func (c *fakeConn) PrepareContext(context.Context, string) (driver.Stmt, error) {
	c.note("prepare")
	return fakeStmt{}, nil
}
func (c *fakeConn) Begin() (driver.Tx, error) { return nil, errors.New("no Begin") }
func (c *fakeConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	c.note("begin")
	return fakeTx{}, nil
}

func (c *fakeConn) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	c.note("exec " + query)
	return driver.RowsAffected(1), nil
}

func (c *fakeConn) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	c.note("query " + query)
	return fakeRows{}, nil
}
func (c *fakeConn) Ping(context.Context) error               { c.note("ping"); return nil }
func (c *fakeConn) ResetSession(context.Context) error       { c.reset++; return nil }
func (c *fakeConn) CheckNamedValue(*driver.NamedValue) error { return nil }
func (c *fakeConn) Close() error                             { c.closed++; return nil }

// plainConn has no more than a driver.Conn must.
type plainConn struct{}

func (plainConn) Prepare(string) (driver.Stmt, error) { return fakeStmt{}, nil }
func (plainConn) Begin() (driver.Tx, error)           { return fakeTx{}, nil }
func (plainConn) Close() error                        { return nil }

type fakeStmt struct{}

func (fakeStmt) Close() error                               { return nil }
func (fakeStmt) NumInput() int                              { return -1 }
func (fakeStmt) Exec([]driver.Value) (driver.Result, error) { return driver.RowsAffected(1), nil }
func (fakeStmt) Query([]driver.Value) (driver.Rows, error)  { return fakeRows{}, nil }

type fakeTx struct{}

func (fakeTx) Commit() error   { return nil }
func (fakeTx) Rollback() error { return nil }

type fakeRows struct{}

func (fakeRows) Columns() []string         { return []string{"a"} }
func (fakeRows) Close() error              { return nil }
func (fakeRows) Next([]driver.Value) error { return io.EOF }
