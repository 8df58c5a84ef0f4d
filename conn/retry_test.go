package conn_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// database/sql runs a statement again, elsewhere, whose error is
// driver.ErrBadConn. Of a lock, the second session would wait for the first.

func TestC67_ALockStatementThatTheDriverCallsBadIsNotRunAgainAndItsLockIsNotLeftBehind(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, key := s.CreateDatabase(t), dbtest.Key(t)
		f := &faulty{match: asksFor(t, s, key), instead: sqldriver.ErrBadConn}
		db := open(t, view, driver.WithInterceptor(f))
		for name, acquire := range map[string]func() (*lockctx.Lock, error){
			"Acquire":    func() (*lockctx.Lock, error) { return lockctx.Acquire(testCtx(t), db, key) },
			"TryAcquire": func() (*lockctx.Lock, error) { return lockctx.TryAcquire(testCtx(t), db, key) },
			"WithTimeout": func() (*lockctx.Lock, error) {
				return lockctx.Acquire(testCtx(t), db, key, lockctx.WithTimeout(50*time.Second))
			},
		} {
			t.Run(name, func(t *testing.T) {
				before := len(f.matched())
				start := time.Now()
				_, err := acquire()
				require.Error(t, err)
				require.NotErrorIs(t, err, sqldriver.ErrBadConn)
				require.Less(t, time.Since(start), 20*time.Second)
				require.Len(t, f.matched()[before:], 1)
				require.Eventually(t, func() bool { return free(t, view, key) }, 10*time.Second, 10*time.Millisecond)
				require.Eventually(t, func() bool { return len(view.Sessions(t)) == 0 }, 10*time.Second, 10*time.Millisecond,
					"the session is gone at the server too")
			})
		}
		f.mu.Lock()
		f.instead = nil
		f.mu.Unlock()
		lk, err := lockctx.Acquire(testCtx(t), db, key)
		require.NoError(t, err)
		require.NoError(t, lk.Close())
	})
}

func TestC67_AWaitThatTheDriverCallsBadIsOverWithinTheTimeAskedFor(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		key := dbtest.Key(t)
		holder := open(t, s)
		lk, err := lockctx.Acquire(testCtx(t), holder, key)
		require.NoError(t, err)
		view := s.CreateDatabase(t)
		if !s.IsMySQL() {
			view = s // its locks are the database's
		}
		asks := asksFor(t, s, key)
		f := &faulty{instead: sqldriver.ErrBadConn, match: func(statement string) bool {
			return asks(statement) && !strings.Contains(statement, "_try_") && !strings.Contains(statement, ", 0)")
		}}
		db := open(t, view, driver.WithInterceptor(f))
		for tries := 1; ; tries++ {
			before, start := len(f.matched()), time.Now()
			_, err = lockctx.Acquire(testCtx(t), db, key, lockctx.WithTimeout(1500*time.Millisecond))
			took, waited := time.Since(start), len(f.matched()) > before
			require.Error(t, err)
			require.NotErrorIs(t, err, sqldriver.ErrBadConn)
			if waited && took < 2500*time.Millisecond {
				break
			}
			// A busy machine can be late, but is not each time.
			require.Less(t, tries, 5, "it took %v, and has waited at the server: %v", took, waited)
		}
		require.NoError(t, lk.Close())
		require.Eventually(t, func() bool { return free(t, s, key) }, 10*time.Second, 10*time.Millisecond)
	})
}

// lockedCase is a statement under a lock's context.
type lockedCase struct {
	name  string
	match string
	do    func(ctx context.Context, db *sql.DB) error
}

func lockedCases(s *dbtest.Server) []lockedCase {
	with := "INSERT INTO once VALUES (?)"
	if !s.IsMySQL() {
		with = "INSERT INTO once VALUES ($1)"
	}
	inTx := func(ctx context.Context, db *sql.DB, end func(*sql.Tx) error) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO once VALUES (1)"); err != nil {
			_ = tx.Rollback()
			return err
		}
		return end(tx)
	}
	return []lockedCase{
		{"Exec", "INSERT", func(ctx context.Context, db *sql.DB) error {
			_, err := db.ExecContext(ctx, "INSERT INTO once VALUES (1)")
			return err
		}},
		{"Exec with a parameter", "INSERT", func(ctx context.Context, db *sql.DB) error {
			_, err := db.ExecContext(ctx, with, 1)
			return err
		}},
		{"Query", "SELECT 1", func(ctx context.Context, db *sql.DB) error {
			rows, err := db.QueryContext(ctx, "SELECT 1")
			if err == nil {
				err = rows.Close()
			}
			return err
		}},
		{"Stmt.Exec", "INSERT", func(ctx context.Context, db *sql.DB) error {
			stmt, err := db.PrepareContext(ctx, with)
			if err != nil {
				return err
			}
			defer stmt.Close()
			_, err = stmt.ExecContext(ctx, 1)
			return err
		}},
		{"Prepare", "prepare: ", func(ctx context.Context, db *sql.DB) error {
			stmt, err := db.PrepareContext(ctx, with)
			if err == nil {
				err = stmt.Close()
			}
			return err
		}},
		{"Begin", "begin", func(ctx context.Context, db *sql.DB) error {
			return inTx(ctx, db, (*sql.Tx).Commit)
		}},
		{"Exec in a transaction", "INSERT", func(ctx context.Context, db *sql.DB) error {
			return inTx(ctx, db, (*sql.Tx).Commit)
		}},
		{"Commit", "commit", func(ctx context.Context, db *sql.DB) error {
			return inTx(ctx, db, (*sql.Tx).Commit)
		}},
		{"Rollback", "rollback", func(ctx context.Context, db *sql.DB) error {
			return inTx(ctx, db, (*sql.Tx).Rollback)
		}},
		{"Ping", "ping", func(ctx context.Context, db *sql.DB) error { return db.PingContext(ctx) }},
	}
}

func TestC67_AStatementUnderALockThatTheDriverCallsBadIsNotRunAgain(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		_, err := view.Open(t).Exec("CREATE TABLE once (a int)")
		require.NoError(t, err)
		for _, c := range lockedCases(s) {
			t.Run(c.name, func(t *testing.T) {
				f := &faulty{match: func(statement string) bool {
					return strings.HasPrefix(strings.TrimPrefix(statement, "stmt: "), c.match)
				}}
				db := open(t, view, driver.WithInterceptor(f))
				lk := acquire(t, db)
				f.mu.Lock()
				f.instead, f.seen = sqldriver.ErrBadConn, nil
				f.mu.Unlock()
				err := c.do(lk.Context(), db)
				if c.name != "Rollback" { // which is sent in other words until it is done
					require.Error(t, err)
				}
				require.NotErrorIs(t, err, sqldriver.ErrBadConn)
				require.Len(t, f.matched(), 1)
			})
		}
	})
}

func TestAStatementOfThePoolThatTheDriverCallsBadIsRunAgainAsOnTheBareDriver(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		f := &faulty{match: func(statement string) bool { return statement == "SELECT 1" }, instead: sqldriver.ErrBadConn}
		db := open(t, s, driver.WithInterceptor(f))
		acquire(t, db)
		_, err := db.Exec("SELECT 1")
		require.Equal(t, sqldriver.ErrBadConn, err, "not wrapped")
		require.Len(t, f.matched(), 3, "twice on a connection of the pool, and once on a new one")
	})
}
