package lockctx_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// Sessions end in most of these tests: the driver's word on each is of no use.
func init() { _ = mysql.SetLogger(&mysql.NopLogger{}) }

// promptly is what a test waits at most for something that has no reason to take long.
const promptly = 10 * time.Second

// asker is a *sql.DB, *sql.Conn or *sql.Tx.
type asker interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

func idQuery(s *dbtest.Server) string {
	if s.IsMySQL() {
		return "SELECT CONNECTION_ID()"
	}
	return "SELECT pg_backend_pid()"
}

// sleepQuery is a statement that takes that many seconds.
func sleepQuery(s *dbtest.Server, seconds float64) string {
	if s.IsMySQL() {
		return fmt.Sprintf("SELECT SLEEP(%g)", seconds)
	}
	return fmt.Sprintf("SELECT pg_sleep(%g)", seconds)
}

// askID is the server's id of the session on which statements on q under ctx run.
func askID(ctx context.Context, t testing.TB, s *dbtest.Server, q asker) (id int64) {
	t.Helper()
	require.NoError(t, q.QueryRowContext(ctx, idQuery(s)).Scan(&id))
	return id
}

// table is a table in a database of the test's own, as a client sees it who knows nothing of lockdb.
type table struct {
	t    testing.TB
	bare *sql.DB
}

// newTable makes a table t (id, v) and returns a view of the server whose database it is in. On
// PostgreSQL that is also where the locks are.
func newTable(t testing.TB, s *dbtest.Server) (*dbtest.Server, *table) {
	t.Helper()
	view := s.CreateDatabase(t)
	tab := &table{t, view.Open(t)}
	tab.bare.SetMaxOpenConns(1)
	_, err := tab.bare.Exec("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT NOT NULL)")
	require.NoError(t, err)
	return view, tab
}

// insert puts row id there through q.
func (tab *table) insert(ctx context.Context, q asker, id int) error {
	_, err := q.ExecContext(ctx, fmt.Sprintf("INSERT INTO t VALUES (%d, 0)", id))
	return err
}

func (tab *table) mustInsert(ctx context.Context, q asker, id int) {
	tab.t.Helper()
	require.NoError(tab.t, tab.insert(ctx, q, id))
}

// ids are those of the committed rows.
func (tab *table) ids() (ids []int) {
	tab.t.Helper()
	rows, err := tab.bare.Query("SELECT id FROM t ORDER BY id")
	require.NoError(tab.t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id int
		require.NoError(tab.t, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(tab.t, rows.Err())
	return ids
}

// value is v of row id.
func (tab *table) value(id int) (v int) {
	tab.t.Helper()
	require.NoError(tab.t, tab.bare.QueryRow(fmt.Sprintf("SELECT v FROM t WHERE id = %d", id)).Scan(&v))
	return v
}

// increment reads v of row id and writes the next one: two of these at a time lose an update.
func increment(ctx context.Context, q asker, id int) error {
	var v int
	if err := q.QueryRowContext(ctx, fmt.Sprintf("SELECT v FROM t WHERE id = %d", id)).Scan(&v); err != nil {
		return err
	}
	_, err := q.ExecContext(ctx, fmt.Sprintf("UPDATE t SET v = %d WHERE id = %d", v+1, id))
	return err
}

// holder is the server's id of the session that holds the lock, 0 if none does.
func (o *outsider) holder(key string) (id int64) {
	o.t.Helper()
	query, arg := "SELECT COALESCE(IS_USED_LOCK(?), 0)", any(nil)
	if o.s.IsMySQL() {
		arg = lockName(o.t, key)
	} else {
		query = `SELECT COALESCE(max(pid), 0) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND (classid::bigint << 32 | objid::bigint) = $1`
		arg = lockID(o.t, key)
	}
	require.NoError(o.t, o.conn.QueryRowContext(context.Background(), query, arg).Scan(&id))
	return id
}

// endOf tells when ctx ends.
func endOf(ctx context.Context) <-chan time.Time {
	end := make(chan time.Time, 1)
	context.AfterFunc(ctx, func() { end <- time.Now() })
	return end
}

// within receives from c, or fails the test. What goes on then is logged, with what explain has to say.
func within[T any](t testing.TB, c <-chan T, d time.Duration, what string, explain ...func()) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(d):
		logGoroutines(t)
		for _, f := range explain {
			f()
		}
		t.Fatalf("%s: not within %v", what, d)
	}
	return v
}

// async runs f on a goroutine of its own and tells what it returned.
func async[T any](f func() T) <-chan T {
	c := make(chan T, 1)
	go func() { c <- f() }()
	return c
}

// requireLost waits for the loss of lk to be told.
func requireLost(t testing.TB, lk *lockctx.Lock) {
	t.Helper()
	within(t, lk.Context().Done(), promptly, "the end of the lock's context")
	require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
}

// requireCommitFailed checks what Commit says after the lock ended with the error want. When
// database/sql has rolled back first, because the context ended, it says ErrTxDone.
func requireCommitFailed(t testing.TB, err error, lk *lockctx.Lock, want error) {
	t.Helper()
	require.Error(t, err)
	if !errors.Is(err, sql.ErrTxDone) {
		require.ErrorIs(t, err, want)
	}
	require.ErrorIs(t, lk.Err(), want)
}

// rawExec runs a statement, of two that for its kind, on the driver's own connection below lockdb's.
func rawExec(ctx context.Context, dc any, mysql, postgres string) error {
	inner := dc.(interface{ Raw() driver.Conn }).Raw()
	query := mysql
	if _, ok := inner.(interface{ Conn() *pgx.Conn }); ok {
		query = postgres
	}
	_, err := inner.(driver.ExecerContext).ExecContext(ctx, query, nil)
	return err
}
