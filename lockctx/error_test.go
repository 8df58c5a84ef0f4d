package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// requireServerError requires that the server's own error is below err.
func requireServerError(t testing.TB, s *dbtest.Server, err error, mysqlCode uint16, pgCode string) {
	t.Helper()
	if s.IsMySQL() {
		var e *mysql.MySQLError
		require.ErrorAs(t, err, &e)
		require.Equal(t, mysqlCode, e.Number)
		return
	}
	var e *pgconn.PgError
	require.ErrorAs(t, err, &e)
	require.Equal(t, pgCode, e.Code)
}

func TestTheServersRefusalOfASessionIsBelowAcquiresError(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := openDSN(t, asUser(s, "nobody-here", "pa55:w0rd@/"))
		for name, acquire := range map[string]func() error{
			"Acquire":    func() error { _, err := lockctx.Acquire(testCtx(t), db, "the-key"); return err },
			"TryAcquire": func() error { _, err := lockctx.TryAcquire(testCtx(t), db, "the-key"); return err },
			"AcquireAll": func() error { _, err := lockctx.AcquireAll(testCtx(t), db, []string{"the-key", "b"}); return err },
			"Do":         func() error { return lockctx.Do(testCtx(t), db, "the-key", nil) },
			"InTx":       func() error { return lockctx.InTx(testCtx(t), db, "the-key", nil, nil) },
		} {
			err := acquire()
			requireServerError(t, s, err, 1045, "28000")
			require.NotErrorIs(t, err, lockctx.ErrNotAcquired, name)
			if name != "AcquireAll" {
				require.ErrorContains(t, err, "the-key", name)
			}
			require.ErrorContains(t, err, "nobody-here", name)
			requireNoPassword(t, err)
		}
	})
}

func TestAnErrorOfAStatementUnderALockIsTheDriversAndCostsNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		statements := map[string]func(context.Context, asker) error{
			"Exec": func(ctx context.Context, q asker) error { _, err := q.ExecContext(ctx, "SELEKT 1"); return err },
			"Query": func(ctx context.Context, q asker) error {
				return q.QueryRowContext(ctx, "SELECT * FROM not_there").Scan(new(int))
			},
		}
		for name, statement := range statements {
			bare := statement(testCtx(t), s.Open(t))
			require.Error(t, bare)
			require.Equal(t, bare.Error(), statement(lk.Context(), db).Error(), name)
			err := inTx(lk.Context(), db, func(tx *sql.Tx) error { return statement(lk.Context(), tx) })
			require.ErrorContains(t, err, bare.Error(), name)
			require.NoError(t, lk.Err(), name)
		}
		require.NoError(t, lk.Close())
	})
}

func TestTheServersReasonForEndingASessionIsBelowTheLoss(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		db := open(t, view)
		t.Run("in a statement", func(t *testing.T) {
			lk := acquire(t, db, dbtest.Key(t))
			id := holdingSession(t, view, lk)
			ended := async(func() error {
				_, err := db.ExecContext(lk.Context(), sleepQuery(view, 30))
				return err
			})
			require.Eventually(t, func() bool { return runs(t, view, id, sleepQuery(view, 30)) }, promptly, 5*time.Millisecond)
			view.KillSession(t, id)
			err := within(t, ended, promptly, "the end of the statement")
			for _, err := range []error{err, lk.Close(), lk.Err(), context.Cause(lk.Context())} {
				require.ErrorIs(t, err, lockctx.ErrLost)
				require.ErrorContains(t, err, lk.Key())
				require.ErrorContains(t, err, fmt.Sprint(id))
				if s.Kind() == dbtest.Postgres { // the others send none, or the driver does not pass it on
					requireServerError(t, s, err, 0, "57P01")
				}
			}
		})
		t.Run("idle", func(t *testing.T) {
			lk := acquire(t, db, dbtest.Key(t))
			id := holdingSession(t, view, lk)
			view.KillSession(t, id)
			requireLost(t, lk)
			for _, err := range []error{lk.Close(), lk.Err(), context.Cause(lk.Context()), db.PingContext(lk.Context())} {
				require.ErrorIs(t, err, lockctx.ErrLost)
				require.ErrorContains(t, err, lk.Key())
				require.ErrorContains(t, err, fmt.Sprint(id))
				if s.Kind() == dbtest.Postgres {
					requireServerError(t, s, err, 0, "57P01")
				}
			}
		})
	})
}

func TestEveryErrorNamesTheKeyAndNoneThePassword(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		key := dbtest.Key(t)
		db := openDSN(t, asUser(s, "root", ""))
		if !s.IsMySQL() {
			db = openDSN(t, asUser(s, "postgres", "pa55:w0rd@/")) // it trusts everyone
		}
		lk := acquire(t, db, key)
		require.False(t, errors.Is(lk.Err(), context.Canceled))
		rows, err := db.QueryContext(lk.Context(), "SELECT 1")
		require.NoError(t, err)
		brief, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		<-brief.Done()
		_, dead := lockctx.Acquire(brief, db, key)
		_, held := lockctx.TryAcquire(testCtx(t), db, key)
		_, timeout := lockctx.Acquire(testCtx(t), open(t, s), key, lockctx.WithTimeout(time.Millisecond))
		drops := "SELECT RELEASE_ALL_LOCKS()"
		if !s.IsMySQL() {
			drops = "SELECT pg_advisory_unlock_all()"
		}
		_, refused := db.ExecContext(lk.Context(), drops)
		require.NoError(t, rows.Close())
		_, err = db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		openTx := lk.Close()
		_, gone := db.ExecContext(context.WithoutCancel(lk.Context()), "SELECT 1")
		require.NoError(t, db.Close())
		_, closed := lockctx.Acquire(testCtx(t), db, key)
		for want, err := range map[error]error{
			context.DeadlineExceeded: dead, lockctx.ErrNotAcquired: errors.Join(held, timeout), lockctx.ErrUnsupported: refused,
			lockctx.ErrReleased: errors.Join(openTx, gone), lockctx.ErrClosed: closed,
		} {
			require.ErrorIs(t, err, want)
			for _, one := range strings.Split(err.Error(), "\n") {
				require.Contains(t, one, key)
			}
			requireNoPassword(t, err)
		}
	})
}

// runs tells whether that session is at that statement.
func runs(t testing.TB, s *dbtest.Server, id int64, statement string) bool {
	for _, session := range s.Sessions(t) {
		if session.ID == id && session.Query == statement {
			return true
		}
	}
	return false
}

func requireNoPassword(t testing.TB, err error) {
	t.Helper()
	for _, secret := range []string{"pa55", "w0rd"} {
		require.NotContains(t, err.Error(), secret)
		require.NotContains(t, fmt.Sprintf("%+v %#v", err, err), secret)
	}
}

// asUser is the server's DSN with a user and a password.
func asUser(s *dbtest.Server, user, password string) string {
	_, rest, _ := strings.Cut(s.DSN(), "@")
	if s.IsMySQL() {
		return user + ":" + password + "@" + rest
	}
	return "postgres://" + user + ":" + strings.NewReplacer(":", "%3A", "@", "%40", "/", "%2F").Replace(password) + "@" + rest
}
