package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// occupation is something that goes on under a lock when it is lost.
type occupation struct {
	name  string
	begin func(t *testing.T, s *dbtest.Server, db *sql.DB, lk *lockctx.Lock)
}

var occupations = []occupation{
	{"nothing", func(*testing.T, *dbtest.Server, *sql.DB, *lockctx.Lock) {}},
	{"a transaction", func(t *testing.T, _ *dbtest.Server, db *sql.DB, lk *lockctx.Lock) {
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		_, err = tx.Exec("SELECT 1")
		require.NoError(t, err)
	}},
	{"a small result set", func(t *testing.T, _ *dbtest.Server, db *sql.DB, lk *lockctx.Lock) {
		rows, err := db.QueryContext(lk.Context(), "SELECT 1 UNION SELECT 2")
		require.NoError(t, err)
		t.Cleanup(func() { _ = rows.Close() })
		require.True(t, rows.Next())
	}},
	{"a large result set", func(t *testing.T, s *dbtest.Server, db *sql.DB, lk *lockctx.Lock) {
		rows, err := db.QueryContext(lk.Context(), manyRows(s, 4<<20))
		require.NoError(t, err)
		t.Cleanup(func() { _ = rows.Close() })
		require.True(t, rows.Next())
	}},
}

// rowSize is how many bytes of text each of manyRows has.
const rowSize = 1000

// manyRows is a query for rows (n, text) of that many bytes in all, n from 1.
func manyRows(s *dbtest.Server, bytes int) string {
	n := bytes / rowSize
	switch s.Kind() {
	case dbtest.Postgres:
		return fmt.Sprintf("SELECT n, repeat('x', %d) FROM generate_series(1, %d) AS n", rowSize, n)
	case dbtest.MariaDB:
		return fmt.Sprintf("SELECT seq, repeat('x', %d) FROM seq_1_to_%d", rowSize, n)
	default:
		return fmt.Sprintf("SELECT /*+ SET_VAR(cte_max_recursion_depth = %d) */ n, repeat('x', %d) FROM "+
			"(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %d) SELECT n FROM s) AS s", n+1, rowSize, n)
	}
}

// told is how soon a context ends when the server ends the session.
const told = 100 * time.Millisecond

func TestI5_AKillEndsTheContextWithErrLostAtOnce(t *testing.T) {
	for _, o := range occupations[:3] {
		t.Run(o.name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				db := open(t, s)
				requireSoon(t, told, func() time.Duration {
					lk := acquire(t, db, dbtest.Key(t))
					session := sessionID(t, s, db, lk)
					o.begin(t, s, db, lk)
					end := endOf(lk.Context())
					s.KillSession(t, session)
					killed := time.Now()
					took := within(t, end, promptly, "the end of the context").Sub(killed)
					require.ErrorIs(t, lk.Context().Err(), lockctx.ErrLost)
					require.ErrorIs(t, context.Cause(lk.Context()), lockctx.ErrLost)
					require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
					require.ErrorContains(t, lk.Err(), fmt.Sprint(session))
					require.ErrorContains(t, lk.Err(), lk.Key())
					require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
					return took
				})
			})
		})
	}
}

func TestI5_AKillUnderALargeResultSetIsToldWithTheNextKeepAlive(t *testing.T) {
	const ttl = time.Second
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		// The end of the connection stands behind the rows that nobody reads.
		db := open(t, s, driver.WithTTL(ttl))
		requireSoon(t, ttl, func() time.Duration {
			lk := acquire(t, db, dbtest.Key(t))
			session := sessionID(t, s, db, lk)
			occupations[3].begin(t, s, db, lk)
			end := endOf(lk.Context())
			s.KillSession(t, session)
			killed := time.Now()
			took := within(t, end, promptly, "the end of the context").Sub(killed)
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
			return took
		})
	})
}

func TestI5_AKillDuringAStatementEndsTheContextAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		db := open(t, view)
		requireSoon(t, told, func() time.Duration {
			lk := acquire(t, db, dbtest.Key(t))
			session := sessionID(t, s, db, lk)
			slept := async(func() error {
				var x any
				return db.QueryRowContext(lk.Context(), sleepQuery(s, 20)).Scan(&x)
			})
			require.Eventually(t, func() bool { return sleeps(t, view, session) }, promptly, time.Millisecond)
			end := endOf(lk.Context())
			s.KillSession(t, session)
			killed := time.Now()
			took := within(t, end, promptly, "the end of the context").Sub(killed)
			require.ErrorIs(t, within(t, slept, promptly, "the statement"), lockctx.ErrLost)
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
			return took
		})
	})
}

func sleeps(t testing.TB, view *dbtest.Server, session int64) bool {
	for _, one := range view.Sessions(t) {
		if one.ID == session && (one.State == "User sleep" || one.State == "PgSleep") {
			return true
		}
	}
	return false
}

func TestI5_AResetOfTheConnectionEndsTheContextAtOnce(t *testing.T) {
	for _, o := range occupations {
		t.Run(o.name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				relay := s.Relay(t)
				db := openDSN(t, relay.DSN())
				requireSoon(t, told, func() time.Duration {
					lk := acquire(t, db, dbtest.Key(t))
					o.begin(t, s, db, lk)
					end := endOf(lk.Context())
					relay.Reset()
					reset := time.Now()
					took := within(t, end, promptly, "the end of the context").Sub(reset)
					require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
					return took
				})
			})
		})
	}
}

func TestI5_ContextsDerivedFromALocksTellOfItsLoss(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		ctxs := map[string]context.Context{"the lock's own": lk.Context()}
		derive := func(name string, ctx context.Context, cancel func()) {
			t.Cleanup(cancel)
			ctxs[name] = ctx
		}
		ctx, cancel := context.WithCancel(lk.Context())
		derive("WithCancel", ctx, cancel)
		ctx, cancel = context.WithTimeout(lk.Context(), time.Hour)
		derive("WithTimeout", ctx, cancel)
		ctx, cancel = context.WithDeadlineCause(ctx, time.Now().Add(time.Minute), errors.New("another cause"))
		derive("WithTimeout, WithDeadlineCause", ctx, cancel)
		//lint:ignore SA1029 any key will do
		ctx = context.WithValue(lk.Context(), "any", "value")
		derive("WithValue", ctx, func() {})
		ctx, cancelCause := context.WithCancelCause(ctx)
		derive("WithValue, WithCancelCause", ctx, func() { cancelCause(nil) })

		ran := make(chan error, 1)
		context.AfterFunc(lk.Context(), func() { ran <- lk.Context().Err() })
		stopped := context.AfterFunc(lk.Context(), func() { panic("stopped, and yet called") })
		require.True(t, stopped())
		require.False(t, stopped())

		s.KillSession(t, sessionID(t, s, db, lk))
		for name, ctx := range ctxs {
			within(t, ctx.Done(), promptly, name)
			require.ErrorIs(t, ctx.Err(), lockctx.ErrLost, name)
			require.ErrorIs(t, ctx.Err(), context.Canceled, name)
			require.ErrorIs(t, context.Cause(ctx), lockctx.ErrLost, name)
			require.ErrorIs(t, db.PingContext(ctx), lockctx.ErrLost, name)
		}
		require.ErrorIs(t, within(t, ran, promptly, "AfterFunc"), lockctx.ErrLost)
		context.AfterFunc(lk.Context(), func() { ran <- nil })
		require.NoError(t, within(t, ran, promptly, "AfterFunc after the end"))

		late, cancelLate := context.WithTimeout(lk.Context(), time.Hour)
		defer cancelLate()
		require.ErrorIs(t, late.Err(), lockctx.ErrLost, "derived after the end")
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}

func TestI5_AChildsOwnEndIsNotALoss(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		child, cancel := context.WithTimeout(lk.Context(), time.Millisecond)
		defer cancel()
		within(t, child.Done(), promptly, "the child's deadline")
		require.Equal(t, context.DeadlineExceeded, child.Err())
		require.ErrorIs(t, db.PingContext(child), context.DeadlineExceeded)
		require.NoError(t, lk.Context().Err())
		require.NoError(t, db.PingContext(lk.Context()))
		require.NoError(t, lk.Close())
	})
}
