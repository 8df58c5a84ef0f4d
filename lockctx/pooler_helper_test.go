package lockctx_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

// pooler is a connector whose connections are clients of a pooler that does not show: each has two
// sessions of the server, and hop says before each statement whether it goes to the other one.
type pooler struct {
	sqldriver.Connector
	hop func(afterTx bool) bool
}

// openPooled opens the server through such a pooler. hop is called by one goroutine at a time for one
// connection, but for several connections at once.
func openPooled(t testing.TB, s *dbtest.Server, hop func(afterTx bool) bool, opts ...driver.Option) *sql.DB {
	t.Helper()
	dialect := driver.Postgres
	var inner sqldriver.Connector
	if s.IsMySQL() {
		dialect = driver.MySQL
		cfg, err := mysql.ParseDSN(s.DSN())
		require.NoError(t, err)
		inner, err = mysql.NewConnector(cfg)
		require.NoError(t, err)
	} else {
		cfg, err := pgx.ParseConfig(s.DSN())
		require.NoError(t, err)
		inner = stdlib.GetConnector(*cfg)
	}
	c, err := driver.NewConnector(pooler{inner, hop}, append(opts, driver.WithDialect(dialect))...)
	require.NoError(t, err)
	db := sql.OpenDB(c)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func (p pooler) Connect(ctx context.Context) (sqldriver.Conn, error) {
	c := &pooledConn{hop: p.hop}
	for i := range c.sessions {
		dc, err := p.Connector.Connect(ctx)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.sessions[i] = dc
	}
	return c, nil
}

type pooledConn struct {
	sessions [2]sqldriver.Conn
	hop      func(afterTx bool) bool
	at       int
	inTx     bool
	afterTx  bool
}

// here is the session for the next statement.
func (c *pooledConn) here() sqldriver.Conn {
	if !c.inTx {
		if c.hop(c.afterTx) {
			c.at = 1 - c.at
		}
		c.afterTx = false
	}
	return c.sessions[c.at]
}

func (c *pooledConn) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	return c.here().(sqldriver.QueryerContext).QueryContext(ctx, query, args)
}

func (c *pooledConn) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	return c.here().(sqldriver.ExecerContext).ExecContext(ctx, query, args)
}

func (c *pooledConn) Prepare(query string) (sqldriver.Stmt, error) { return c.here().Prepare(query) }

func (c *pooledConn) Begin() (sqldriver.Tx, error) {
	return c.BeginTx(context.Background(), sqldriver.TxOptions{})
}

func (c *pooledConn) BeginTx(ctx context.Context, opts sqldriver.TxOptions) (sqldriver.Tx, error) {
	tx, err := c.here().(sqldriver.ConnBeginTx).BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	c.inTx = true
	return pooledTx{c, tx}, nil
}

func (c *pooledConn) Ping(ctx context.Context) error {
	return c.here().(sqldriver.Pinger).Ping(ctx)
}

func (c *pooledConn) Close() error {
	var errs []error
	for _, dc := range c.sessions {
		if dc != nil {
			errs = append(errs, dc.Close())
		}
	}
	return errors.Join(errs...)
}

type pooledTx struct {
	c *pooledConn
	sqldriver.Tx
}

func (tx pooledTx) Commit() error {
	tx.c.inTx, tx.c.afterTx = false, true
	return tx.Tx.Commit()
}

func (tx pooledTx) Rollback() error {
	tx.c.inTx, tx.c.afterTx = false, true
	return tx.Tx.Rollback()
}

// whenTold hops once after each time that told was set.
func whenTold(told *atomic.Bool) func(bool) bool {
	return func(bool) bool { return told.CompareAndSwap(true, false) }
}

// ownPgBouncer is one before the shared PostgreSQL that nothing but the test uses:
// PgBouncer 1.18 ends ("bad client state") when a client that has asked it to cancel
// a statement is gone before it has, as those are that tests kill.
func ownPgBouncer(t testing.TB) *dbtest.Server {
	t.Helper()
	return dbtest.Shared(t, dbtest.Postgres).PgBouncer(t, "pool_mode=transaction")
}
