package conn_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// open opens a server through lockdb; it is closed at the test's end.
func open(t testing.TB, s *dbtest.Server, opts ...driver.Option) *sql.DB {
	t.Helper()
	return openDSN(t, s.DSN(), opts...)
}

func openDSN(t testing.TB, dsn string, opts ...driver.Option) *sql.DB {
	t.Helper()
	c, err := driver.OpenConnector(dsn, opts...)
	require.NoError(t, err)
	db := sql.OpenDB(c)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// acquire takes a lock of a key of its own; it is closed at the test's end.
func acquire(t testing.TB, db *sql.DB, opts ...lockctx.Option) *lockctx.Lock {
	t.Helper()
	lk, err := lockctx.Acquire(testCtx(t), db, dbtest.Key(t), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = lk.Close() })
	return lk
}

// testCtx bounds what a test waits for; it never ends before the test does.
func testCtx(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 180*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// stallMeter measures for how long at most this process stood still until the call of
// the function that it returns, as on a machine with too much to do.
func stallMeter() (longest func() time.Duration) {
	const step = time.Millisecond
	stop, stalled := make(chan struct{}), make(chan time.Duration)
	go func() {
		var most time.Duration
		for last := time.Now(); ; {
			select {
			case <-stop:
				stalled <- most
				return
			case <-time.After(step):
				now := time.Now()
				most, last = max(most, now.Sub(last)-step), now
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-stalled
	}
}

// requireCloses closes db, which must not hang: why says what Close would be waiting for.
func requireCloses(t *testing.T, db *sql.DB, why string) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Error(why)
	}
}
