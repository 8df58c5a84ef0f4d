package bench

import (
	"context"
	"database/sql/driver"
	"io"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"
)

// noop is a driver whose server takes no time: what is left is the cost of
// database/sql and of what wraps the driver. It claims the interfaces that the
// real drivers claim. Statements do nothing, queries return one row of ones; but
// it has one lock, for all names, that excludes as MySQL's do.
type noop struct {
	mu     sync.Mutex // guards what follows
	holder *noopConn
	conns  int64
}

var (
	_ driver.DriverContext = (*noop)(nil)
	_ driver.Connector     = (*noop)(nil)
)

func (s *noop) Open(string) (driver.Conn, error)               { return s.Connect(context.Background()) }
func (s *noop) OpenConnector(string) (driver.Connector, error) { return s, nil }
func (s *noop) Driver() driver.Driver                          { return s }

func (s *noop) Connect(context.Context) (driver.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns++
	return &noopConn{server: s, id: s.conns}, nil
}

// noopConn hands out the same statement, transaction and result set again and
// again, so that the allocations counted are those of others.
type noopConn struct {
	server *noop
	id     int64
	stmt   noopStmt
	tx     noopTx
	rows   noopRows
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
	c.rows = noopRows{columns: noopColumns[:1], value: one}
	switch {
	case strings.HasPrefix(query, "SELECT GET_LOCK"):
		c.rows.value = c.lock()
	case strings.HasPrefix(query, "SELECT RELEASE_LOCK"):
		c.rows.value = c.unlock()
	case strings.HasPrefix(query, "SELECT IS_USED_LOCK"):
		c.rows.value = c.server.owner()
	case strings.HasPrefix(query, "SHOW"):
		c.rows.read = true
	case strings.Contains(query, "@@"):
		return nil, &mysql.MySQLError{Number: 1193, Message: "Unknown system variable"}
	case strings.HasPrefix(query, "SELECT CONNECTION_ID(), VERSION()"):
		c.rows.columns = noopColumns
	}
	return &c.rows, nil
}

func (c *noopConn) lock() driver.Value {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.server.holder == nil {
		c.server.holder = c
	}
	if c.server.holder != c {
		return zero
	}
	return one
}

func (c *noopConn) unlock() driver.Value {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.server.holder != c {
		return zero
	}
	c.server.holder = nil
	return one
}

func (s *noop) owner() driver.Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder == nil {
		return nil
	}
	return s.holder.id
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

func (c *noopConn) Close() error {
	_ = c.unlock()
	return nil
}

type noopStmt struct{ rows noopRows }

var (
	_ driver.StmtExecContext  = (*noopStmt)(nil)
	_ driver.StmtQueryContext = (*noopStmt)(nil)
)

func (s *noopStmt) Close() error                               { return nil }
func (s *noopStmt) NumInput() int                              { return -1 }
func (s *noopStmt) Exec([]driver.Value) (driver.Result, error) { return driver.RowsAffected(1), nil }

func (s *noopStmt) Query([]driver.Value) (driver.Rows, error) {
	s.rows = noopRows{columns: noopColumns[:1], value: one}
	return &s.rows, nil
}

func (s *noopStmt) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	return s.Exec(nil)
}

func (s *noopStmt) QueryContext(context.Context, []driver.NamedValue) (driver.Rows, error) {
	return s.Query(nil)
}

type noopTx struct{}

func (*noopTx) Commit() error   { return nil }
func (*noopTx) Rollback() error { return nil }

var (
	noopColumns = []string{"n", "m"}
	zero, one   = driver.Value(int64(0)), driver.Value(int64(1))
)

type noopRows struct {
	columns []string
	value   driver.Value
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
		dest[i] = r.value
	}
	return nil
}
