package lockctx_test

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// preparedNow is how many statements are prepared on the session that has the
// lock, or on all of a MySQL server, which does not tell whose they are.
func preparedNow(t testing.TB, s *dbtest.Server, admin *sql.DB, owner asker) (n int) {
	t.Helper()
	if !s.IsMySQL() {
		require.NoError(t, owner.QueryRowContext(testCtx(t), "SELECT count(*) FROM pg_prepared_statements, (SELECT pg_try_advisory_lock(1, 1) OFFSET 0) x").Scan(&n))
		require.NoError(t, second(owner.ExecContext(testCtx(t), "SELECT pg_advisory_unlock(1, 1)")))
		return n
	}
	var name string
	require.NoError(t, admin.QueryRow("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'").Scan(&name, &n))
	return n
}

// A statement is prepared again where the pool's connection has another session.
// What was prepared before must not stay behind: servers have room for so many.
func TestStatementsThatAreKeptDoNotPileUpOnParkedSessions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		if s.IsMySQL() {
			view = dbtest.Private(t, s.Kind()) // it counts for the whole server
		}
		db, admin, key := open(t, view), view.Open(t), dbtest.Key(t)
		db.SetMaxOpenConns(2)
		prepare := func(query string) *sql.Stmt {
			stmt, err := db.PrepareContext(testCtx(t), query)
			require.NoError(t, err)
			t.Cleanup(func() { _ = stmt.Close() })
			return stmt
		}
		text := preparedFor(t, view, key)
		take, release := prepare(text.take), prepare(text.release)
		plain := prepare("SELECT 7")
		round := func() {
			var yes bool
			require.NoError(t, take.QueryRowContext(testCtx(t), text.args...).Scan(&yes))
			require.True(t, yes)
			var n int
			require.NoError(t, plain.QueryRowContext(testCtx(t)).Scan(&n))
			require.Equal(t, 7, n)
			require.NoError(t, release.QueryRowContext(testCtx(t), text.args[0]).Scan(&yes))
			require.True(t, yes)
		}
		for range 5 {
			round()
		}
		before := preparedNow(t, view, admin, db)
		for range 40 {
			round()
		}
		require.LessOrEqual(t, preparedNow(t, view, admin, db), before+4)
	})
}

func TestStatementsThatAreKeptRunOnTheRightSessionBesideParking(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		db.SetMaxOpenConns(3)
		echo := "SELECT ?"
		if !s.IsMySQL() {
			echo = "SELECT $1::int"
		}
		plain, err := db.PrepareContext(testCtx(t), echo)
		require.NoError(t, err)
		defer plain.Close()
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				mine := fmt.Sprintf("%s:%d", key, i)
				text := rawSQLFor(t, s, mine)
				for n := range 20 {
					var got int
					switch {
					case !yes(t, db, text.take):
						t.Error("a lock of its own was refused")
					case plain.QueryRowContext(testCtx(t), n).Scan(&got) != nil || got != n:
						t.Errorf("asked for %d, got %d", n, got)
					case !yes(t, db, text.release):
						t.Error("its owner could not release it")
					}
				}
			})
		}
		all.Wait()
		for i := range 6 {
			require.True(t, out.try(fmt.Sprintf("%s:%d", key, i)))
		}
	})
}
