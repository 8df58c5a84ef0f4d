package orm_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/conn"
	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/lockkey"
	"github.com/lockdb/lockdb/lockctx"
)

// server is a database of its own on a real server, with an outside client that
// knows nothing of lockdb.
type server struct {
	*dbtest.Server
	outside *sql.DB
}

// eachServer runs fn on every server, in a database with the empty table item.
func eachServer(t *testing.T, fn func(t *testing.T, s server)) {
	dbtest.Each(t, func(t *testing.T, shared *dbtest.Server) {
		own := shared.CreateDatabase(t)
		s := server{own, own.Open(t)}
		_, err := s.outside.Exec("CREATE TABLE item (id BIGINT PRIMARY KEY, name VARCHAR(100) NOT NULL DEFAULT '')")
		require.NoError(t, err)
		fn(t, s)
	})
}

// dialect is what ORMs call the server.
func (s server) dialect() string {
	if s.IsMySQL() {
		return "mysql"
	}
	return "postgres"
}

// open opens the server through lockdb, as a program would.
func (s server) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver.Name, s.DSN())
	require.NoError(t, err)
	closeAtEnd(t, db)
	return db
}

// connector is for what wraps connectors; the *sql.DB made of it closes it.
func (s server) connector(t testing.TB, opts ...driver.Option) *conn.Connector {
	t.Helper()
	c, err := driver.OpenConnector(s.DSN(), opts...)
	require.NoError(t, err)
	return c
}

func openConnector(t testing.TB, c *conn.Connector) *sql.DB {
	t.Helper()
	db := sql.OpenDB(c)
	closeAtEnd(t, db)
	return db
}

func closeAtEnd(t testing.TB, db *sql.DB) {
	t.Cleanup(func() { require.NoError(t, db.Close()) })
}

// bind writes the placeholders as the server has them.
func (s server) bind(query string) string {
	if s.IsMySQL() {
		return query
	}
	return sqlx.Rebind(sqlx.DOLLAR, query)
}

// selectSession asks for the server's id of the session that runs the query.
func (s server) selectSession() string {
	if s.IsMySQL() {
		return "SELECT CONNECTION_ID() AS id"
	}
	return "SELECT pg_backend_pid() AS id"
}

// holder is the session that holds the lock, as the server has it; 0 if it is free.
func (s server) holder(t testing.TB, key string) int64 {
	t.Helper()
	query, arg := "SELECT IS_USED_LOCK(?)", any(nil)
	if s.IsMySQL() {
		name, err := lockkey.Name("", key)
		require.NoError(t, err)
		arg = name
	} else {
		id, err := lockkey.ID("", key)
		require.NoError(t, err)
		query = `SELECT max(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND classid::bigint << 32 | objid::bigint = $1`
		arg = id
	}
	var id sql.NullInt64
	require.NoError(t, s.outside.QueryRow(query, arg).Scan(&id))
	return id.Int64
}

// has tells whether the outside client sees the item.
func (s server) has(t testing.TB, id int64) bool {
	t.Helper()
	var n int
	require.NoError(t, s.outside.QueryRow(s.bind("SELECT COUNT(*) FROM item WHERE id = ?"), id).Scan(&n))
	return n > 0
}

// acquire takes a lock of the test's own and checks that the server says so. It
// is closed when the test ends, if it was not before.
func (s server) acquire(t testing.TB, db *sql.DB) (lk *lockctx.Lock, session int64) {
	t.Helper()
	key := dbtest.Key(t)
	lk, err := lockctx.Acquire(testCtx(t), db, key)
	require.NoError(t, err)
	t.Cleanup(func() { _ = lk.Close() })
	session = s.holder(t, key)
	require.NotZero(t, session)
	return lk, session
}

// kill ends the lock's session from outside and waits until the lock knows.
func (s server) kill(t testing.TB, lk *lockctx.Lock, session int64) {
	t.Helper()
	s.KillSession(t, session)
	select {
	case <-lk.Context().Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the lock did not notice that its session was killed")
	}
	require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
}

// requireLost accepts what a call may say after the loss of its lock: ErrLost
// or, where database/sql has ended the transaction before the call came,
// sql.ErrTxDone.
func requireLost(t testing.TB, lk *lockctx.Lock, err error) {
	t.Helper()
	require.Error(t, err)
	require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
	if !errors.Is(err, sql.ErrTxDone) {
		require.ErrorIs(t, err, lockctx.ErrLost)
	}
}

// testCtx bounds what a test waits for; it never ends before the test does.
func testCtx(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 180*time.Second)
	t.Cleanup(cancel)
	return ctx
}
