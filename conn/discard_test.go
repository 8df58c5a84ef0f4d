package conn_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// discardCase throws a session away and returns its id.
type discardCase struct {
	name string
	opts []driver.Option
	// within bounds how long the server may still know it, if it would end it by
	// itself before long.
	within time.Duration
	do     func(t *testing.T, s *dbtest.Server, db *sql.DB) int64
}

var discardCases = []discardCase{
	{name: "Raw says driver.ErrBadConn", do: func(t *testing.T, s *dbtest.Server, db *sql.DB) int64 {
		c, err := db.Conn(testCtx(t))
		require.NoError(t, err)
		id := sessionID(t, s, c)
		require.ErrorIs(t, c.Raw(func(any) error { return sqldriver.ErrBadConn }), sqldriver.ErrBadConn)
		require.ErrorIs(t, c.Close(), sql.ErrConnDone)
		return id
	}},
	{name: "the pool keeps none", do: func(t *testing.T, s *dbtest.Server, db *sql.DB) int64 {
		db.SetMaxIdleConns(-1)
		return sessionID(t, s, db)
	}},
	{name: "the pool keeps none so long", do: func(t *testing.T, s *dbtest.Server, db *sql.DB) int64 {
		id := sessionID(t, s, db)
		db.SetConnMaxLifetime(time.Nanosecond)
		require.NoError(t, db.Ping(), "on another")
		return id
	}},
	{name: "the driver's connection is closed behind the pool", do: func(t *testing.T, s *dbtest.Server, db *sql.DB) int64 {
		c, err := db.Conn(testCtx(t))
		require.NoError(t, err)
		id := sessionID(t, s, c)
		require.NoError(t, c.Raw(func(dc any) error { return dc.(interface{ Raw() sqldriver.Conn }).Raw().Close() }))
		require.NoError(t, c.Close())
		require.Zero(t, db.Stats().OpenConnections, "it is not valid any more")
		return id
	}},
	{name: "a statement is cancelled", do: func(t *testing.T, s *dbtest.Server, db *sql.DB) int64 {
		ctx, cancel := context.WithCancel(testCtx(t))
		defer cancel()
		return cancelLate(t, s, db, ctx, cancel)
	}},
	{name: "a statement under a lock is cancelled", do: func(t *testing.T, s *dbtest.Server, db *sql.DB) int64 {
		lk := acquire(t, db)
		ctx, cancel := context.WithCancel(lk.Context())
		defer cancel()
		id := cancelLate(t, s, db, ctx, cancel)
		require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
		return id
	}},
	{
		name: "a lock is closed and no session kept", opts: []driver.Option{driver.WithMaxIdleSessions(0)},
		do: func(t *testing.T, s *dbtest.Server, db *sql.DB) int64 {
			lk := acquire(t, db)
			id := lockSession(t, s, db, lk)
			require.NoError(t, lk.Close())
			return id
		},
	},
	{
		name: "a lock's session is not used", opts: []driver.Option{driver.WithTTL(4 * time.Second)}, within: 3500 * time.Millisecond,
		do: func(t *testing.T, s *dbtest.Server, db *sql.DB) int64 {
			lk := acquire(t, db)
			id := lockSession(t, s, db, lk)
			require.NoError(t, lk.Close())
			return id
		},
	},
	{
		name: "a lock is closed while its session is in the user's hands", opts: []driver.Option{driver.WithBusyTimeout(0)},
		do: func(t *testing.T, s *dbtest.Server, db *sql.DB) int64 {
			lk := acquire(t, db)
			c, err := lk.Conn(testCtx(t))
			require.NoError(t, err)
			id := rawID(t, s, c)
			require.Error(t, lk.Close())
			require.NoError(t, c.Close())
			return id
		},
	},
	{name: "a lock is lost because its connection is closed in this process", do: func(t *testing.T, s *dbtest.Server, db *sql.DB) int64 {
		lk := acquire(t, db)
		c, err := lk.Conn(testCtx(t))
		require.NoError(t, err)
		id := rawID(t, s, c)
		require.NoError(t, c.Raw(func(dc any) error { return dc.(interface{ Raw() sqldriver.Conn }).Raw().Close() }))
		require.NoError(t, c.Close())
		require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
		return id
	}},
	{name: "the database is closed", do: func(t *testing.T, s *dbtest.Server, db *sql.DB) int64 {
		lk := acquire(t, db)
		id := lockSession(t, s, db, lk)
		require.NoError(t, db.Close())
		return id
	}},
}

// cancelLate cancels a statement that runs, and returns its session.
func cancelLate(t *testing.T, s *dbtest.Server, db *sql.DB, ctx context.Context, cancel func()) int64 {
	t.Helper()
	query := "SELECT SLEEP(20)"
	if !s.IsMySQL() {
		query = "SELECT pg_sleep(20)"
	}
	var id int64
	go func() {
		defer cancel()
		for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); {
			for _, one := range s.Sessions(t) {
				if one.Query == query {
					id = one.ID
					return
				}
			}
		}
	}()
	_, err := db.ExecContext(ctx, query)
	require.ErrorIs(t, err, context.Canceled)
	<-ctx.Done()
	return id
}

// lockSession is the server's id of a lock's session.
func lockSession(t *testing.T, s *dbtest.Server, db *sql.DB, lk *lockctx.Lock) int64 {
	t.Helper()
	c, err := lk.Conn(testCtx(t))
	require.NoError(t, err)
	defer c.Close()
	return sessionID(t, s, c)
}

// discarded tells how long the server knew the session after it was discarded.
func discarded(t *testing.T, s *dbtest.Server, c discardCase) time.Duration {
	t.Helper()
	view := s.CreateDatabase(t)
	id := c.do(t, view, open(t, view, c.opts...))
	since := time.Now()
	require.NotZero(t, id)
	if s.IsMySQL() && (c.name == "a statement is cancelled" || c.name == "a statement under a lock is cancelled") {
		view.KillSession(t, id) // MySQL does not look at the socket while it works
	}
	require.Eventually(t, func() bool {
		for _, one := range view.Sessions(t) {
			if one.ID == id {
				return false
			}
		}
		return true
	}, 10*time.Second, 10*time.Millisecond, "session %d", id)
	return time.Since(since)
}

func TestC68_ADiscardedSessionIsGoneAtTheServerToo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for _, c := range discardCases {
			t.Run(c.name, func(t *testing.T) {
				for tries := 1; ; tries++ {
					took := discarded(t, s, c)
					if c.within == 0 || took < c.within {
						return
					}
					require.Less(t, tries, 5, "it took %v", took) // a busy machine can be late, but is not each time
				}
			})
		}
	})
}
