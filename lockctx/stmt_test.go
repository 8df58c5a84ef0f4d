package lockctx_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

// prepareCounter counts how often a marked statement is prepared and closed.
type prepareCounter struct {
	sqlmw.NullInterceptor
	prepared, closed atomic.Int64
}

const marked = "SELECT 'marked'"

func (c *prepareCounter) ConnPrepareContext(ctx context.Context, conn sqldriver.ConnPrepareContext, query string) (context.Context, sqldriver.Stmt, error) {
	if strings.HasPrefix(query, marked) {
		c.prepared.Add(1)
	}
	stmt, err := conn.PrepareContext(ctx, query)
	return ctx, stmt, err
}

func (c *prepareCounter) StmtClose(_ context.Context, stmt sqldriver.Stmt) error {
	c.closed.Add(1)
	return stmt.Close()
}

// A *sql.Stmt is prepared on every connection of the pool. On the lock's
// session it must not be so once more for each of them.
func TestAStatementIsPreparedOnceOnALocksSessionHoweverManyConnsUseIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		const conns = 5
		counter := &prepareCounter{}
		db := open(t, s, driver.WithInterceptor(counter))
		lk := acquire(t, db, dbtest.Key(t))
		stmt, err := db.PrepareContext(lk.Context(), marked)
		require.NoError(t, err)
		use := func() {
			var got string
			require.NoError(t, stmt.QueryRowContext(lk.Context()).Scan(&got))
			require.Equal(t, "marked", got)
		}
		for range conns {
			use()
			c, err := db.Conn(testCtx(t)) // takes the one that was used last
			require.NoError(t, err)
			defer c.Close()
		}
		require.EqualValues(t, 1, counter.prepared.Load())
	})
}

func TestAStatementIsClosedWhenTheLocksSessionHasTime(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		counter := &prepareCounter{}
		db := open(t, s, driver.WithInterceptor(counter))
		lk := acquire(t, db, dbtest.Key(t))
		stmt, err := db.PrepareContext(lk.Context(), marked)
		require.NoError(t, err)
		same, err := db.PrepareContext(lk.Context(), marked)
		require.NoError(t, err)
		require.EqualValues(t, 1, counter.prepared.Load())
		ping := func() { require.NoError(t, db.PingContext(lk.Context())) }

		require.NoError(t, stmt.Close())
		ping()
		require.Zero(t, counter.closed.Load(), "it is in use")
		require.NoError(t, same.Close())
		require.Zero(t, counter.closed.Load(), "it may be a round trip, and the session be busy")
		ping()
		require.EqualValues(t, 1, counter.closed.Load())
		stmt, err = db.PrepareContext(lk.Context(), marked)
		require.NoError(t, err)
		require.EqualValues(t, 2, counter.prepared.Load())
		require.NoError(t, stmt.Close())
		require.NoError(t, lk.Close())
		require.EqualValues(t, 2, counter.closed.Load(), "it is closed before the session is handed on")
	})
}

func TestAStatementOutlivesTheSessionsItRanOnWithoutKeepingThem(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	config, err := pgx.ParseConfig(s.DSN())
	require.NoError(t, err)
	inner := &countingConnector{Connector: stdlib.GetConnector(*config)}
	c, err := driver.NewConnector(inner, driver.WithDialect(driver.Postgres), driver.WithMaxIdleSessions(0))
	require.NoError(t, err)
	db := sql.OpenDB(c)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	stmt, err := db.Prepare(marked)
	require.NoError(t, err)
	defer stmt.Close()
	for range 20 {
		lk := acquire(t, db, dbtest.Key(t))
		_, err := stmt.ExecContext(lk.Context())
		require.NoError(t, err)
		require.NoError(t, lk.Close())
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		return inner.live.Load() <= 3 // the pool's, and those that the statement saw last
	}, 3*promptly, 100*time.Millisecond, "of 21 connections")
	require.Greater(t, inner.opened.Load(), int64(20))
}

// countingConnector counts the connections that are in memory.
type countingConnector struct {
	sqldriver.Connector
	opened, live atomic.Int64
}

type countedConn struct{ *stdlib.Conn }

func (c *countingConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	dc, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	counted := &countedConn{dc.(*stdlib.Conn)}
	c.opened.Add(1)
	c.live.Add(1)
	runtime.AddCleanup(counted, func(live *atomic.Int64) { live.Add(-1) }, &c.live)
	return counted, nil
}
