package conn_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync"
)

// fakeDriver is an inner driver without a server. It notes the calls that it
// gets, and answers them as a server of MySQL's family would.
type fakeDriver struct {
	// wrap gives a connection the interfaces that it is to have.
	wrap func(*fakeConn) driver.Conn
	// fail, if not nil, says what a call is answered instead.
	fail func(call string) error

	locks fakeLocks

	mu    sync.Mutex // guards calls
	calls []string
}

func (d *fakeDriver) Connect(context.Context) (driver.Conn, error) {
	if err := d.note("connect"); err != nil {
		return nil, err
	}
	return d.wrap(&fakeConn{d: d, id: d.locks.connect()}), nil
}

func (d *fakeDriver) Driver() driver.Driver { return d }

func (d *fakeDriver) Open(string) (driver.Conn, error) { return d.Connect(context.Background()) }

func (d *fakeDriver) note(call string) error {
	d.mu.Lock()
	d.calls = append(d.calls, call)
	d.mu.Unlock()
	if d.fail != nil {
		return d.fail(call)
	}
	return nil
}

// take returns what was called since the last take.
func (d *fakeDriver) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

// fakeConn has what all connections must have. Its other methods are lent to
// the types below.
type fakeConn struct {
	d  *fakeDriver
	id int64
}

func (c *fakeConn) Prepare(query string) (driver.Stmt, error) {
	return fakeStmt{c.d, query}, c.d.note("prepare " + query)
}

func (c *fakeConn) Begin() (driver.Tx, error) { return fakeTx{c.d}, c.d.note("begin") }

func (c *fakeConn) Close() error {
	c.d.locks.disconnect(c.id)
	return c.d.note("close")
}

type fakeTx struct{ d *fakeDriver }

func (t fakeTx) Commit() error   { return t.d.note("commit") }
func (t fakeTx) Rollback() error { return t.d.note("rollback") }

// fakeStmt has no more than it must.
type fakeStmt struct {
	d     *fakeDriver
	query string
}

func (s fakeStmt) Close() error  { return s.d.note("stmt close") }
func (s fakeStmt) NumInput() int { return strings.Count(s.query, "?") }

func (s fakeStmt) Exec([]driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), s.d.note("stmt exec " + s.query)
}

func (s fakeStmt) Query([]driver.Value) (driver.Rows, error) {
	return oneRow(), s.d.note("stmt query " + s.query)
}

// fakeRows is one row.
type fakeRows struct {
	row  []driver.Value
	done bool
}

func oneRow() *fakeRows { return &fakeRows{row: []driver.Value{int64(1)}} }

func (r *fakeRows) Columns() []string { return make([]string, len(r.row)) }
func (r *fakeRows) Close() error      { return nil }
func (r *fakeRows) Next(row []driver.Value) error {
	if r.done {
		return io.EOF
	}
	r.done = true
	copy(row, r.row)
	return nil
}

// Halves of connections, to be put together.
type (
	fakeContext  struct{ c *fakeConn } // the interfaces with Context
	fakeLegacy   struct{ c *fakeConn } // those that they took the place of
	fakePing     struct{ c *fakeConn }
	fakeReset    struct{ c *fakeConn }
	fakeValidate struct{ c *fakeConn }
	fakeCheck    struct{ c *fakeConn }
)

func (h fakeContext) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), h.c.d.note("exec " + query)
}

func (h fakeContext) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	if err := h.c.d.note("query " + query); err != nil {
		return nil, err
	}
	row, err := h.c.d.locks.answer(h.c.id, query)
	if row == nil {
		row = []driver.Value{int64(1)}
	}
	return &fakeRows{row: row}, err
}

func (h fakeContext) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return fakeStmt{h.c.d, query}, h.c.d.note("prepare " + query)
}

func (h fakeContext) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return fakeTx{h.c.d}, h.c.d.note("begin")
}

func (h fakeLegacy) Exec(query string, _ []driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), h.c.d.note("old exec " + query)
}

func (h fakeLegacy) Query(query string, _ []driver.Value) (driver.Rows, error) {
	return oneRow(), h.c.d.note("old query " + query)
}

func (h fakePing) Ping(context.Context) error          { return h.c.d.note("ping") }
func (h fakeReset) ResetSession(context.Context) error { return h.c.d.note("reset") }
func (h fakeValidate) IsValid() bool                   { return h.c.d.note("valid") == nil }

func (h fakeCheck) CheckNamedValue(v *driver.NamedValue) error {
	switch v.Value {
	case "skip":
		return driver.ErrSkip
	case "remove":
		return driver.ErrRemoveArgument
	case "wrong":
		return errors.New("a wrong value")
	}
	return nil
}

// fakeConns are connections with more or fewer interfaces.
var fakeConns = map[string]func(*fakeConn) driver.Conn{
	"bare": func(c *fakeConn) driver.Conn { return c },
	"with Exec and Query without Context": func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeLegacy
		}{c, fakeLegacy{c}}
	},
	"full": fullFake,
	"without Validator": func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeContext
			fakePing
			fakeReset
			fakeCheck
		}{c, fakeContext{c}, fakePing{c}, fakeReset{c}, fakeCheck{c}}
	},
	"without SessionResetter": func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeContext
			fakePing
			fakeValidate
			fakeCheck
		}{c, fakeContext{c}, fakePing{c}, fakeValidate{c}, fakeCheck{c}}
	},
	"without Pinger and NamedValueChecker": func(c *fakeConn) driver.Conn {
		return struct {
			*fakeConn
			fakeContext
			fakeReset
			fakeValidate
		}{c, fakeContext{c}, fakeReset{c}, fakeValidate{c}}
	},
}

func fullFake(c *fakeConn) driver.Conn {
	return struct {
		*fakeConn
		fakeContext
		fakePing
		fakeReset
		fakeValidate
		fakeCheck
	}{c, fakeContext{c}, fakePing{c}, fakeReset{c}, fakeValidate{c}, fakeCheck{c}}
}
