package lockctx_test

import (
	"context"
	"database/sql"
	"flag"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/lockkey"
	"github.com/lockdb/lockdb/lockctx"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) && runtime.GOMAXPROCS(0) < 9 {
		_ = f.Value.Set("9") // what tests do beside each other is to wait for time to pass: three cases on three servers
	}
	goleak.VerifyTestMain(m)
}

// open opens a server through lockdb; it is closed at the test's end.
func open(t testing.TB, s *dbtest.Server, opts ...driver.Option) *sql.DB {
	t.Helper()
	return openDSN(t, s.DSN(), opts...)
}

func openDSN(t testing.TB, dsn string, opts ...driver.Option) *sql.DB {
	t.Helper()
	opts = append([]driver.Option{driver.WithLogger(slog.New(slog.DiscardHandler))}, opts...)
	c, err := driver.OpenConnector(dsn, opts...)
	require.NoError(t, err)
	db := sql.OpenDB(c)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// acquire takes a lock that the test cannot do without.
func acquire(t testing.TB, db *sql.DB, key string, opts ...lockctx.Option) *lockctx.Lock {
	t.Helper()
	lk, err := lockctx.Acquire(testCtx(t), db, key, opts...)
	require.NoError(t, err)
	return lk
}

// testCtx bounds what a test waits for; it never ends before the test does.
func testCtx(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// outsider is a client of the server that knows nothing of lockdb.
type outsider struct {
	t    testing.TB
	s    *dbtest.Server
	conn *sql.Conn
}

func newOutsider(t testing.TB, s *dbtest.Server) *outsider {
	t.Helper()
	c, err := s.Open(t).Conn(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &outsider{t, s, c}
}

// try takes the raw lock that lockdb uses for key, without waiting, and lets it
// go again at once if it was granted.
func (o *outsider) try(key string) bool {
	o.t.Helper()
	if !o.take(key) {
		return false
	}
	o.release(key)
	return true
}

// take takes the raw lock that lockdb uses for key, without waiting.
func (o *outsider) take(key string) (granted bool) {
	o.t.Helper()
	query, arg := "SELECT GET_LOCK(?, 0)", any(nil)
	if o.s.IsMySQL() {
		arg = lockName(o.t, key)
	} else {
		query, arg = "SELECT pg_try_advisory_lock($1)", lockID(o.t, key)
	}
	require.NoError(o.t, o.conn.QueryRowContext(context.Background(), query, arg).Scan(&granted))
	return granted
}

func (o *outsider) release(key string) {
	o.t.Helper()
	query, arg := "SELECT RELEASE_LOCK(?)", any(nil)
	if o.s.IsMySQL() {
		arg = lockName(o.t, key)
	} else {
		query, arg = "SELECT pg_advisory_unlock($1)", lockID(o.t, key)
	}
	var released bool
	require.NoError(o.t, o.conn.QueryRowContext(context.Background(), query, arg).Scan(&released))
	require.True(o.t, released)
}

// free waits until the server grants the lock to a stranger.
func (o *outsider) free(key string, within time.Duration) {
	o.t.Helper()
	require.Eventually(o.t, func() bool { return o.try(key) }, within, 2*time.Millisecond, "the lock %q is still held", key)
}

// sessionID is the server's id of the lock's own session.
func sessionID(t testing.TB, s *dbtest.Server, db *sql.DB, lk *lockctx.Lock) (id int64) {
	t.Helper()
	query := "SELECT CONNECTION_ID()"
	if !s.IsMySQL() {
		query = "SELECT pg_backend_pid()"
	}
	require.NoError(t, db.QueryRowContext(lk.Context(), query).Scan(&id))
	return id
}

func lockName(t testing.TB, key string) string {
	t.Helper()
	name, err := lockkey.Name("", key)
	require.NoError(t, err)
	return name
}

func lockID(t testing.TB, key string) int64 {
	t.Helper()
	id, err := lockkey.ID("", key)
	require.NoError(t, err)
	return id
}

// dally lets others in, where nothing keeps them out.
func dally() { time.Sleep(rand.N(4 * time.Millisecond)) }
