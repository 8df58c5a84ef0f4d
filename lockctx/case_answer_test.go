package lockctx_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"

	lockdb "github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// tamper changes what comes back from the server: the answers to statements
// that contain which.
type tamper struct {
	sqlmw.NullInterceptor
	which  string
	answer atomic.Pointer[func(dest []driver.Value) error] // nil: as the server says
	exec   atomic.Pointer[func() error]                    // before an Exec of which
}

type tampered struct{}

func (i *tamper) ConnQueryContext(ctx context.Context, conn driver.QueryerContext, query string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	rows, err := conn.QueryContext(ctx, query, args)
	if strings.Contains(query, i.which) {
		ctx = context.WithValue(ctx, tampered{}, true)
	}
	return ctx, rows, err
}

func (i *tamper) RowsNext(ctx context.Context, rows driver.Rows, dest []driver.Value) error {
	err := rows.Next(dest)
	if f := i.answer.Load(); f != nil && ctx.Value(tampered{}) != nil && err == nil {
		return (*f)(dest)
	}
	return err
}

func (i *tamper) ConnExecContext(ctx context.Context, conn driver.ExecerContext, query string, args []driver.NamedValue) (driver.Result, error) {
	if f := i.exec.Load(); f != nil && strings.Contains(query, i.which) {
		if err := (*f)(); err != nil {
			return nil, err
		}
	}
	return conn.ExecContext(ctx, query, args)
}

// answers are what a server does not say, or says rarely, when asked for a lock.
var answers = map[string]func(dest []driver.Value) error{
	"NULL":              func(dest []driver.Value) error { dest[0] = nil; return nil },
	"nothing":           func([]driver.Value) error { return io.EOF },
	"an error":          func([]driver.Value) error { return errors.New("cannot be scanned") },
	"a strange type":    func(dest []driver.Value) error { dest[0] = time.Now(); return nil },
	"a dead connection": func([]driver.Value) error { return driver.ErrBadConn },
}

func TestC08_AnAnswerThatSaysNothingLeavesNoLockAndNoConnection(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for name, answer := range answers {
			t.Run(name, func(t *testing.T) {
				view := s.CreateDatabase(t)
				i := &tamper{which: "GET_LOCK("}
				if !s.IsMySQL() {
					i.which = "pg_try_advisory_lock("
				}
				db, out, key := open(t, view, lockdb.WithInterceptor(i)), newOutsider(t, view), dbtest.Key(t)
				require.NoError(t, acquire(t, db, key).Close())
				i.answer.Store(&answer)
				for range 3 {
					_, err := lockctx.TryAcquire(testCtx(t), db, key) // the server grants it
					require.Error(t, err)
					require.NotErrorIs(t, err, lockctx.ErrNotAcquired)
					require.ErrorContains(t, err, key)
					require.Error(t, lockctx.InTx(testCtx(t), db, key, nil, func(context.Context, *sql.Tx) error {
						t.Error("it ran without the lock")
						return nil
					}))
					out.free(key, gone)
				}
				i.answer.Store(nil)
				require.NoError(t, acquire(t, db, key).Close())
				requireIdleSessions(t, view, 2)
			})
		}
	})
}

func TestC08_AReleaseThatIsNotConfirmedIsALossAndLeavesNoLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		deny := func(dest []driver.Value) error { dest[0] = int64(0); return nil }
		i := &tamper{which: "RELEASE_LOCK("}
		if !s.IsMySQL() {
			i.which = "pg_advisory_unlock("
			deny = func(dest []driver.Value) error { dest[0] = false; return nil }
		}
		all := map[string]func([]driver.Value) error{"no": deny}
		for name, answer := range answers {
			all[name] = answer
		}
		db, out := open(t, s, lockdb.WithInterceptor(i)), newOutsider(t, s)
		for name, answer := range all {
			key := dbtest.Key(t)
			i.answer.Store(nil)
			lk := acquire(t, db, key)
			i.answer.Store(&answer)
			err := lk.Close()
			require.ErrorIs(t, err, lockctx.ErrLost, name)
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost, name)
			out.free(key, gone)
		}
	})
}

func TestC19_WhatMeansTheEndOfTheSessionIsALoss(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		var ends []error // ErrBadConn and I/O errors prove nothing by themselves: C20 and C21 have real ones
		if s.IsMySQL() {
			for _, number := range []uint16{4031, 2006, 2013, 1927, 1053} {
				ends = append(ends, &mysql.MySQLError{Number: number, Message: "as if"})
			}
		} else {
			for _, code := range []string{"57P01", "57P02", "57P05", "25P03", "08006", "08003"} {
				ends = append(ends, &pgconn.PgError{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: "as if"})
			}
		}
		i := &tamper{which: "SELECT 'as if'"}
		db, out := open(t, s, lockdb.WithInterceptor(i)), newOutsider(t, s)
		for _, end := range ends {
			key := dbtest.Key(t)
			lk := acquire(t, db, key)
			fail := func() error { return end }
			i.exec.Store(&fail)
			_, err := db.ExecContext(lk.Context(), "SELECT 'as if'")
			require.ErrorIs(t, err, lockctx.ErrLost, "%v", end)
			require.ErrorIs(t, err, end)
			requireLost(t, lk)
			out.free(key, gone) // the session is gone, if the server did not know it yet
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		}
	})
}
