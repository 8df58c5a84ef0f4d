package conn_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/lockkey"
)

// faulty is an interceptor that lets the server do what it is asked, and then
// has the driver say something else.
type faulty struct {
	sqlmw.NullInterceptor
	// match tells which statements it is about.
	match func(statement string) bool
	// instead is what is said, nil for the truth.
	instead error

	mu   sync.Mutex // guards what follows
	seen []string   // the statements that matched
	all  []string
}

// said notes a statement that the server has answered.
func (f *faulty) said(err error, statement string, args ...any) error {
	for _, a := range args {
		if nv, ok := a.([]driver.NamedValue); ok {
			for _, v := range nv {
				statement += fmt.Sprintf(" [%v]", v.Value)
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, statement)
	if f.match == nil || !f.match(statement) {
		return err
	}
	f.seen = append(f.seen, statement)
	if f.instead != nil {
		return f.instead
	}
	return err
}

func (f *faulty) matched() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.seen...)
}

func (f *faulty) statements() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.all...)
}

func (f *faulty) ConnExecContext(ctx context.Context, c driver.ExecerContext, query string, args []driver.NamedValue) (driver.Result, error) {
	res, err := c.ExecContext(ctx, query, args)
	if errors.Is(err, driver.ErrSkip) {
		return nil, err
	}
	return res, f.said(err, query, args)
}

func (f *faulty) ConnQueryContext(ctx context.Context, c driver.QueryerContext, query string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	rows, err := c.QueryContext(ctx, query, args)
	if errors.Is(err, driver.ErrSkip) {
		return ctx, nil, err
	}
	if said := f.said(err, query, args); said != nil {
		if rows != nil {
			_ = rows.Close()
		}
		return ctx, nil, said
	}
	return ctx, rows, nil
}

func (f *faulty) ConnPrepareContext(ctx context.Context, c driver.ConnPrepareContext, query string) (context.Context, driver.Stmt, error) {
	stmt, err := c.PrepareContext(ctx, query)
	return ctx, stmt, f.said(err, "prepare: "+query)
}

func (f *faulty) StmtExecContext(ctx context.Context, s driver.StmtExecContext, query string, args []driver.NamedValue) (driver.Result, error) {
	res, err := s.ExecContext(ctx, args)
	return res, f.said(err, "stmt: "+query, args)
}

func (f *faulty) StmtQueryContext(ctx context.Context, s driver.StmtQueryContext, query string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	rows, err := s.QueryContext(ctx, args)
	if said := f.said(err, "stmt: "+query, args); said != nil {
		if rows != nil {
			_ = rows.Close()
		}
		return ctx, nil, said
	}
	return ctx, rows, nil
}

func (f *faulty) ConnBeginTx(ctx context.Context, c driver.ConnBeginTx, o driver.TxOptions) (context.Context, driver.Tx, error) {
	tx, err := c.BeginTx(ctx, o)
	return ctx, tx, f.said(err, "begin")
}

func (f *faulty) ConnPing(ctx context.Context, c driver.Pinger) error {
	return f.said(c.Ping(ctx), "ping")
}

func (f *faulty) TxCommit(_ context.Context, tx driver.Tx) error {
	return f.said(tx.Commit(), "commit")
}

func (f *faulty) TxRollback(_ context.Context, tx driver.Tx) error {
	return f.said(tx.Rollback(), "rollback")
}

// asksFor matches the statements that ask the server for the lock of a key.
func asksFor(t testing.TB, s *dbtest.Server, key string) func(string) bool {
	t.Helper()
	function, arg := "GET_LOCK", ""
	if s.IsMySQL() {
		name, err := lockkey.Name("", key)
		require.NoError(t, err)
		arg = "'" + name + "'"
	} else {
		id, err := lockkey.ID("", key)
		require.NoError(t, err)
		function, arg = "advisory_lock", fmt.Sprint(id)
	}
	return func(statement string) bool {
		return strings.Contains(statement, function) && strings.Contains(statement, arg)
	}
}

// free tells whether the server grants the lock of a key to a stranger.
func free(t testing.TB, s *dbtest.Server, key string) (granted bool) {
	t.Helper()
	c, err := s.Open(t).Conn(testCtx(t))
	require.NoError(t, err)
	defer c.Close()
	query, arg := "SELECT GET_LOCK(?, 0)", any(nil)
	if s.IsMySQL() {
		arg, err = lockkey.Name("", key)
	} else {
		query = "SELECT pg_try_advisory_lock($1)"
		arg, err = lockkey.ID("", key)
	}
	require.NoError(t, err)
	require.NoError(t, c.QueryRowContext(testCtx(t), query, arg).Scan(&granted))
	// The end of the connection lets it go.
	require.ErrorIs(t, c.Raw(func(any) error { return driver.ErrBadConn }), driver.ErrBadConn)
	return granted
}
