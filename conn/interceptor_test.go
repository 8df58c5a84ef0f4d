package conn_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestAnInterceptorSeesLockdbsOwnStatementsToo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		f := &faulty{}
		db := open(t, s, driver.WithInterceptor(f), driver.WithTTL(6*time.Second))
		key := dbtest.Key(t)
		asks := asksFor(t, s, key)
		saw := func(what string, match func(string) bool) {
			t.Helper()
			require.Eventually(t, func() bool {
				for _, statement := range f.statements() {
					if match(statement) {
						return true
					}
				}
				return false
			}, 20*time.Second, 5*time.Millisecond, "%s is not among %q", what, f.statements())
		}
		contains := func(part string) func(string) bool {
			return func(statement string) bool { return strings.Contains(statement, part) }
		}
		release := "RELEASE_LOCK"
		if !s.IsMySQL() {
			release = "pg_advisory_unlock"
		}

		lk, err := lockctx.Acquire(testCtx(t), db, key)
		require.NoError(t, err)
		saw("the lock statement", asks)
		_, err = db.ExecContext(lk.Context(), "SELECT 17")
		require.NoError(t, err)
		saw("a statement under the lock", contains("SELECT 17"))
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		saw("BEGIN", contains("begin"))
		pings := func() (n int) {
			for _, statement := range f.statements() {
				if statement == "ping" {
					n++
				}
			}
			return n
		}
		before := pings()
		require.Eventually(t, func() bool { return pings() > before }, 20*time.Second, 5*time.Millisecond, "the keep-alive")
		require.NoError(t, tx.Commit())
		saw("COMMIT", contains("commit"))
		require.NoError(t, lk.Close())
		saw("the release", contains(release))
		require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "SELECT 18")
			return err
		}))
		saw("InTx's lock statement", asks)
	})
}

func TestBehindAnInterceptorEveryValueTravelsAsWithoutOne(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		bare := s.Open(t)
		db := open(t, s, driver.WithInterceptor(sqlmw.NullInterceptor{}))
		lk := acquire(t, db)
		for i, c := range valueCases(s) {
			at := fmt.Sprintf("case %d: %s with %#v", i, c.query, c.args)
			want := ask(testCtx(t), bare, c)
			require.Equal(t, want, ask(testCtx(t), db, c), at)
			require.Equal(t, want, ask(lk.Context(), db, c), "%s, under a lock", at)
		}
	})
}

func TestBehindAnInterceptorLocksKeepTheirPromises(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		_, err := view.Open(t).Exec("CREATE TABLE counter (n int)")
		require.NoError(t, err)
		lockPromises(t, view, func(ttl time.Duration) *sql.DB {
			return open(t, view, driver.WithInterceptor(sqlmw.NullInterceptor{}), driver.WithTTL(ttl))
		})
	})
}

// lockPromises tries what locks promise, in short, on a database that has a
// table counter. Loss is told within twenty seconds: how soon is not the point here.
func lockPromises(t *testing.T, s *dbtest.Server, open func(ttl time.Duration) *sql.DB) {
	t.Helper()
	db, key := open(6*time.Second), dbtest.Key(t)
	take := func(t *testing.T) *lockctx.Lock {
		t.Helper()
		lk, err := lockctx.Acquire(testCtx(t), db, key)
		require.NoError(t, err)
		t.Cleanup(func() { _ = lk.Close() })
		return lk
	}
	count := func(t *testing.T) (n int) {
		require.NoError(t, s.Open(t).QueryRow("SELECT count(*) FROM counter").Scan(&n))
		return n
	}
	t.Run("it excludes", func(t *testing.T) {
		lk := take(t)
		require.False(t, free(t, s, key))
		_, err := lockctx.TryAcquire(testCtx(t), db, key)
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		require.NoError(t, lk.Close())
		require.True(t, free(t, s, key))
	})
	t.Run("statements run on its session", func(t *testing.T) {
		lk := take(t)
		id := lockSession(t, s, db, lk)
		with := "SELECT CONNECTION_ID() + ?"
		if !s.IsMySQL() {
			with = "SELECT pg_backend_pid() + $1::int"
		}
		stmt, err := db.PrepareContext(lk.Context(), with)
		require.NoError(t, err)
		for range 2 {
			var got int64
			require.NoError(t, stmt.QueryRowContext(lk.Context(), 1).Scan(&got))
			require.Equal(t, id+1, got)
		}
		var elsewhere int64
		require.NoError(t, stmt.QueryRowContext(testCtx(t), 1).Scan(&elsewhere))
		require.NotEqual(t, id+1, elsewhere)
		require.NoError(t, stmt.Close())
	})
	t.Run("a result set and a transaction left open do not cost it", func(t *testing.T) {
		ttl := 2 * time.Second
		err := leftOpen(t, open(ttl), ttl+ttl/4)
		for ttl < 16*time.Second && errors.Is(err, lockctx.ErrLost) { // a busy machine can miss a keep-alive
			ttl *= 2
			err = leftOpen(t, open(ttl), ttl+ttl/4)
		}
		require.NoError(t, err)
	})
	t.Run("InTx commits", func(t *testing.T) {
		before := count(t)
		require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO counter VALUES (1)")
			return err
		}))
		require.Equal(t, before+1, count(t))
		require.True(t, free(t, s, key))
	})
	t.Run("loss is told, and nothing committed", func(t *testing.T) {
		before := count(t)
		lk := take(t)
		id := lockSession(t, s, db, lk)
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(lk.Context(), "INSERT INTO counter VALUES (1)")
		require.NoError(t, err)
		s.KillSession(t, id)
		select {
		case <-lk.Context().Done():
		case <-time.After(20 * time.Second):
			t.Fatal("nobody tells")
		}
		require.ErrorIs(t, context.Cause(lk.Context()), lockctx.ErrLost)
		require.Error(t, tx.Commit())
		_, err = db.ExecContext(lk.Context(), "INSERT INTO counter VALUES (1)")
		require.ErrorIs(t, err, lockctx.ErrLost)
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		require.Equal(t, before, count(t))
		require.Eventually(t, func() bool { return free(t, s, key) }, 10*time.Second, 10*time.Millisecond)
	})
	t.Run("a statement that is cancelled costs it", func(t *testing.T) {
		lk := take(t)
		ctx, cancel := context.WithCancel(lk.Context())
		defer cancel()
		id := cancelLate(t, s, db, ctx, cancel)
		require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
		if s.IsMySQL() {
			s.KillSession(t, id) // it does not look at the socket while it works
		}
	})
}

// leftOpen leaves a result set and then a transaction open for so long, under a lock.
func leftOpen(t *testing.T, db *sql.DB, long time.Duration) error {
	t.Helper()
	lk, err := lockctx.Acquire(testCtx(t), db, dbtest.Key(t))
	require.NoError(t, err)
	defer func() { _ = lk.Close() }()
	rows, err := db.QueryContext(lk.Context(), "SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3")
	if err != nil {
		return err
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		if n++; n == 1 {
			<-time.After(long)
		}
	}
	if err := errors.Join(rows.Err(), lk.Err()); err != nil {
		return err
	}
	require.Equal(t, 3, n)
	tx, err := db.BeginTx(lk.Context(), nil)
	if err != nil {
		return err
	}
	<-time.After(long)
	return errors.Join(tx.Commit(), lk.Err())
}
