package lockctx_test

import (
	"context"
	"database/sql"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

const busyTimeout = 100 * time.Millisecond

// requireBusy checks that fn waits the busy timeout and then says what occupies the session.
func requireBusy(t *testing.T, lk *lockctx.Lock, occupant string, fn func() error) {
	t.Helper()
	began := time.Now()
	err := fn()
	require.ErrorIs(t, err, lockctx.ErrBusy)
	require.ErrorContains(t, err, occupant)
	require.ErrorContains(t, err, lk.Key())
	require.GreaterOrEqual(t, time.Since(began), busyTimeout)
	require.NoError(t, lk.Err())
}

// atGate runs a statement and returns when it waits for the lock's session.
func atGate(t *testing.T, statement func() error) <-chan error {
	t.Helper()
	label, done := dbtest.Key(t), make(chan error, 1)
	go pprof.Do(context.Background(), pprof.Labels("statement", label), func(context.Context) { done <- statement() })
	require.Eventually(t, func() bool { return labelledIn(label, "(*gate).enter") }, promptly, time.Millisecond)
	return done
}

func ways(t *testing.T, db *sql.DB, lk *lockctx.Lock) map[string]func() error {
	t.Helper()
	stmt, err := lk.DB().PrepareContext(lk.Context(), "SELECT 1")
	require.NoError(t, err)
	t.Cleanup(func() { _ = stmt.Close() })
	return map[string]func() error{
		"Exec":     func() error { _, err := db.ExecContext(lk.Context(), "SELECT 1"); return err },
		"Query":    func() error { return db.QueryRowContext(lk.Context(), "SELECT 1").Scan(new(int)) },
		"Ping":     func() error { return db.PingContext(lk.Context()) },
		"Begin":    func() error { _, err := db.BeginTx(lk.Context(), nil); return err },
		"Prepare":  func() error { _, err := db.PrepareContext(lk.Context(), "SELECT 1"); return err },
		"prepared": func() error { _, err := stmt.ExecContext(lk.Context()); return err },
		"lk.DB()":  func() error { _, err := lk.DB().ExecContext(lk.Context(), "SELECT 1"); return err },
	}
}

func TestAStatementBesideAnOpenResultSetIsBusyAfterTheTimeout(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s, driver.WithBusyTimeout(busyTimeout))
		lk := acquire(t, db, dbtest.Key(t))
		fns := ways(t, db, lk)
		rows, err := db.QueryContext(lk.Context(), "SELECT 1 UNION SELECT 2")
		require.NoError(t, err)
		require.True(t, rows.Next())
		for name, fn := range fns {
			t.Log(name)
			requireBusy(t, lk, "a result set", fn)
		}
		require.True(t, rows.Next(), "the result set has not suffered")
		require.NoError(t, rows.Close())
		for name, fn := range fns {
			if name != "Begin" && name != "Prepare" { // what they open stays open
				require.NoError(t, fn(), name)
			}
		}
		require.NoError(t, lk.Close())
	})
}

func TestAStatementBesideAnOpenTransactionIsBusyAfterTheTimeout(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s, driver.WithBusyTimeout(busyTimeout))
		lk := acquire(t, db, dbtest.Key(t))
		fns := ways(t, db, lk)
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		for name, fn := range fns {
			t.Log(name)
			requireBusy(t, lk, "a transaction", fn)
		}
		rows, err := tx.Query("SELECT 1 UNION SELECT 2")
		require.NoError(t, err)
		_, err = tx.Exec("SELECT 1")
		require.ErrorIs(t, err, lockctx.ErrBusy)
		require.NoError(t, rows.Close())
		_, err = tx.Exec("SELECT 1")
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.NoError(t, db.PingContext(lk.Context()))
		require.NoError(t, lk.Close())
	})
}

// The result set could neither be read on nor closed while the statement waits:
// database/sql locks the connection for both.
func TestAStatementBesideAResultSetOfTheSameConnIsBusyAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s, driver.WithBusyTimeout(time.Hour))
		lk := acquire(t, db, dbtest.Key(t))
		onConn, err := lk.Conn(testCtx(t))
		require.NoError(t, err)
		for name, of := range map[string]func() (queryer, error){
			"Tx":       func() (queryer, error) { return db.BeginTx(lk.Context(), nil) },
			"Tx of DB": func() (queryer, error) { return lk.DB().BeginTx(lk.Context(), nil) },
			"Conn":     func() (queryer, error) { return onConn, nil },
		} {
			on, err := of()
			require.NoError(t, err, name)
			stmt, err := on.PrepareContext(lk.Context(), "SELECT 1")
			require.NoError(t, err, name)
			rows, err := on.QueryContext(lk.Context(), "SELECT 1 UNION SELECT 2")
			require.NoError(t, err, name)
			require.True(t, rows.Next(), name)
			for _, fn := range []func() error{
				func() error { _, err := on.ExecContext(lk.Context(), "SELECT 1"); return err },
				func() error { return on.QueryRowContext(lk.Context(), "SELECT 1").Scan(new(int)) },
				func() error { _, err := on.PrepareContext(lk.Context(), "SELECT 2"); return err },
				func() error { _, err := stmt.ExecContext(lk.Context()); return err },
			} {
				err := within(t, async(fn), promptly, name)
				require.ErrorIs(t, err, lockctx.ErrBusy, name)
				require.ErrorContains(t, err, "a result set, open for", name)
			}
			require.True(t, rows.Next(), "the result set has not suffered")
			require.NoError(t, rows.Close(), name)
			_, err = stmt.ExecContext(lk.Context())
			require.NoError(t, err, name)
			require.NoError(t, stmt.Close(), name)
			if tx, ok := on.(*sql.Tx); ok {
				require.NoError(t, tx.Commit(), name)
			}
		}
		require.NoError(t, onConn.Close())
		require.NoError(t, lk.Close())
	})
}

type queryer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func TestAStatementThatWaitsForTheSessionRunsWhenItComesFree(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		for name, open := range map[string]func() (interface{ Close() error }, error){
			"a result set": func() (interface{ Close() error }, error) { return db.QueryContext(lk.Context(), "SELECT 1") },
			"a transaction": func() (interface{ Close() error }, error) {
				tx, err := db.BeginTx(lk.Context(), nil)
				return closing{tx}, err
			},
		} {
			occupant, err := open()
			require.NoError(t, err, name)
			waiting := atGate(t, func() error { return db.PingContext(lk.Context()) })
			require.NoError(t, occupant.Close())
			require.NoError(t, within(t, waiting, promptly, name))
		}
		require.NoError(t, lk.Close())
	})
}

type closing struct{ *sql.Tx }

func (c closing) Close() error { return c.Commit() }

func TestARunningStatementIsNoReasonToBeBusy(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s, driver.WithBusyTimeout(busyTimeout))
		lk := acquire(t, db, dbtest.Key(t))
		long := async(func() error {
			_, err := db.ExecContext(lk.Context(), sleepQuery(s, 3*busyTimeout.Seconds()))
			return err
		})
		together(t, 5, func(int) error { return db.PingContext(lk.Context()) })
		require.NoError(t, within(t, long, promptly, "the long statement"))
		require.NoError(t, lk.Close())
	})
}

func TestTheEndOfItsContextEndsTheWaitForTheSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		rows, err := db.QueryContext(lk.Context(), "SELECT 1")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(lk.Context(), 20*time.Millisecond)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, db.PingContext(ctx), context.DeadlineExceeded)
		require.Less(t, time.Since(began), promptly)
		require.NoError(t, rows.Close())
		require.NoError(t, db.PingContext(lk.Context()), "the queue goes on")
		require.NoError(t, lk.Close())
	})
}

func TestCloseOfTheLockEndsTheWaitForTheSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		rows, err := db.QueryContext(lk.Context(), "SELECT 1")
		require.NoError(t, err)
		defer func() { _ = rows.Close() }()
		waiting := atGate(t, func() error { return db.PingContext(context.WithoutCancel(lk.Context())) })
		require.NoError(t, lk.Close())
		require.ErrorIs(t, within(t, waiting, promptly, "the waiting statement"), lockctx.ErrReleased)
	})
}
