package conn_test

import (
	"context"
	"database/sql/driver"
	"io"
	"strings"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
)

// noopConnector is an inner driver that does nothing and allocates nothing for
// it. Every query returns one row of ones, but that there is one lock.
type noopConnector struct{}

// noopHolder has the lock.
var noopHolder atomic.Pointer[noopConn]

func (noopConnector) Connect(context.Context) (driver.Conn, error) { return &noopConn{}, nil }
func (noopConnector) Driver() driver.Driver                        { return noopDriver{} }

type noopDriver struct{}

func (noopDriver) Open(string) (driver.Conn, error) { return &noopConn{}, nil }

// noopConn embeds what it gives out: database/sql uses one of each at a time here.
type noopConn struct {
	rows noopRows
	stmt noopStmt
}

func (c *noopConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *noopConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	c.stmt = noopStmt{c, strings.Count(query, "?")}
	return &c.stmt, nil
}

func (c *noopConn) Begin() (driver.Tx, error) { return c, nil }

func (c *noopConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return c, nil }

func (c *noopConn) Commit() error   { return nil }
func (c *noopConn) Rollback() error { return nil }

func (c *noopConn) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	c.rows = noopRows{columns: noopColumns[:1], value: noopOne}
	switch {
	case strings.Contains(query, "@@"):
		return nil, &mysql.MySQLError{Number: 1193, Message: "Unknown system variable"}
	case query == "SELECT CONNECTION_ID(), VERSION()":
		c.rows.columns = noopColumns
	case strings.HasPrefix(query, "SELECT GET_LOCK"):
		if !noopHolder.CompareAndSwap(nil, c) && noopHolder.Load() != c {
			c.rows.value = noopZero
		}
	case strings.HasPrefix(query, "SELECT RELEASE_LOCK"):
		noopHolder.CompareAndSwap(c, nil)
	case strings.HasPrefix(query, "SHOW"):
		c.rows.done = true
	}
	return &c.rows, nil
}

func (c *noopConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.ResultNoRows, nil
}

func (c *noopConn) Ping(context.Context) error               { return nil }
func (c *noopConn) ResetSession(context.Context) error       { return nil }
func (c *noopConn) IsValid() bool                            { return true }
func (c *noopConn) CheckNamedValue(*driver.NamedValue) error { return nil }
func (c *noopConn) Close() error                             { return nil }

//lint:ignore SA1012 it does not look at it
func (c *noopConn) queryRows() (driver.Rows, error) { return c.QueryContext(nil, "", nil) }

type noopStmt struct {
	c      *noopConn
	inputs int
}

func (s *noopStmt) Close() error                               { return nil }
func (s *noopStmt) NumInput() int                              { return s.inputs }
func (s *noopStmt) Exec([]driver.Value) (driver.Result, error) { return driver.ResultNoRows, nil }
func (s *noopStmt) Query([]driver.Value) (driver.Rows, error)  { return s.c.queryRows() }
func (s *noopStmt) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	return driver.ResultNoRows, nil
}

func (s *noopStmt) QueryContext(context.Context, []driver.NamedValue) (driver.Rows, error) {
	return s.c.queryRows()
}

var (
	noopColumns              = make([]string, 2)
	noopOne     driver.Value = int64(1)
	noopZero    driver.Value = int64(0)
)

type noopRows struct {
	columns []string
	value   driver.Value
	done    bool
}

func (r *noopRows) Columns() []string { return r.columns }
func (r *noopRows) Close() error      { return nil }
func (r *noopRows) Next(row []driver.Value) error {
	if r.done {
		return io.EOF
	}
	r.done = true
	for i := range row {
		row[i] = r.value
	}
	return nil
}
