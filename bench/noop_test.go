package bench

import (
	"context"
	"database/sql/driver"
	"io"
	"strings"
)

// noop is a driver whose server is infinitely fast: what is left is the cost of
// database/sql and of what wraps the driver. It claims the interfaces that the
// real drivers claim, and answers every query with one row of ones.
type noop struct{}

var (
	_ driver.DriverContext = noop{}
	_ driver.Connector     = noop{}
)

func (noop) Open(string) (driver.Conn, error)               { return &noopConn{}, nil }
func (noop) OpenConnector(string) (driver.Connector, error) { return noop{}, nil }
func (noop) Connect(context.Context) (driver.Conn, error)   { return &noopConn{}, nil }
func (noop) Driver() driver.Driver                          { return noop{} }

// noopConn hands out the same statement, transaction and result set again and
// again, so that the allocations counted are those of others.
type noopConn struct {
	stmt noopStmt
	tx   noopTx
	rows noopRows
}

var (
	_ driver.QueryerContext     = (*noopConn)(nil)
	_ driver.ExecerContext      = (*noopConn)(nil)
	_ driver.ConnPrepareContext = (*noopConn)(nil)
	_ driver.ConnBeginTx        = (*noopConn)(nil)
	_ driver.Pinger             = (*noopConn)(nil)
	_ driver.SessionResetter    = (*noopConn)(nil)
	_ driver.Validator          = (*noopConn)(nil)
	_ driver.NamedValueChecker  = (*noopConn)(nil)
)

func (c *noopConn) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	c.rows = noopRows{columns: oneColumn}
	if strings.Contains(query, "CONNECTION_ID") { // with VERSION(), at the opening of a lock session
		c.rows.columns = twoColumns
	}
	return &c.rows, nil
}

func (c *noopConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), nil
}

func (c *noopConn) PrepareContext(context.Context, string) (driver.Stmt, error) { return &c.stmt, nil }

func (c *noopConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return &c.tx, nil
}
func (c *noopConn) Prepare(string) (driver.Stmt, error)      { return &c.stmt, nil }
func (c *noopConn) Begin() (driver.Tx, error)                { return &c.tx, nil }
func (c *noopConn) Ping(context.Context) error               { return nil }
func (c *noopConn) ResetSession(context.Context) error       { return nil }
func (c *noopConn) IsValid() bool                            { return true }
func (c *noopConn) CheckNamedValue(*driver.NamedValue) error { return nil }
func (c *noopConn) Close() error                             { return nil }

type noopStmt struct{}

var _ driver.StmtExecContext = (*noopStmt)(nil)

func (*noopStmt) Close() error                               { return nil }
func (*noopStmt) NumInput() int                              { return -1 }
func (*noopStmt) Exec([]driver.Value) (driver.Result, error) { return driver.RowsAffected(1), nil }
func (*noopStmt) Query([]driver.Value) (driver.Rows, error) {
	return &noopRows{columns: oneColumn}, nil
}

func (*noopStmt) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), nil
}

func (*noopStmt) QueryContext(context.Context, []driver.NamedValue) (driver.Rows, error) {
	return &noopRows{columns: oneColumn}, nil
}

type noopTx struct{}

func (*noopTx) Commit() error   { return nil }
func (*noopTx) Rollback() error { return nil }

var (
	oneColumn  = []string{"n"}
	twoColumns = []string{"n", "m"}
	one        = driver.Value(int64(1))
)

type noopRows struct {
	columns []string
	read    bool
}

func (r *noopRows) Columns() []string { return r.columns }
func (r *noopRows) Close() error      { return nil }

func (r *noopRows) Next(dest []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read = true
	for i := range dest {
		dest[i] = one
	}
	return nil
}
