package lockctx_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// dropsAll are the statements that release every session lock of a session.
func dropsAll(s *dbtest.Server) []string {
	if s.IsMySQL() {
		return []string{"SELECT RELEASE_ALL_LOCKS()", "DO RELEASE_ALL_LOCKS()"}
	}
	return []string{"SELECT pg_advisory_unlock_all()", "DISCARD ALL"}
}

// withoutCache is the DSN for a client that may send DISCARD ALL, which drops what
// pgx has prepared.
func withoutCache(s *dbtest.Server) string {
	if s.IsMySQL() {
		return s.DSN()
	}
	return s.DSN() + "&default_query_exec_mode=exec"
}

func TestC11_ARollbackToASavepointKeepsRawSessionLocks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, out, key := open(t, view), newOutsider(t, view), dbtest.Key(t)
		tx, err := db.BeginTx(testCtx(t), nil)
		require.NoError(t, err)
		run := func(query string) { require.NoError(t, second(tx.ExecContext(testCtx(t), query)), query) }
		tab.mustInsert(testCtx(t), tx, 1)
		run("SAVEPOINT a")
		require.True(t, yes(t, tx, rawSQLFor(t, view, key).take))
		if !s.IsMySQL() {
			run(fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", lockID(t, key+":xact")))
			require.False(t, out.try(key+":xact"))
		}
		run("ROLLBACK TO SAVEPOINT a")
		require.False(t, out.try(key))
		if !s.IsMySQL() {
			require.True(t, out.try(key+":xact"), "the server drops these, and lockdb leaves them to it")
			run(fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", lockID(t, key+":xact")))
		}
		require.True(t, yes(t, tx, rawSQLFor(t, view, key).release))
		require.True(t, out.try(key))
		require.True(t, yes(t, tx, rawSQLFor(t, view, key).take))
		require.NoError(t, tx.Commit())
		require.True(t, out.try(key))
		require.True(t, s.IsMySQL() || out.try(key+":xact"))
	})
}

func TestC41_UnlockAllByTextIsForTheSessionItRunsOn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for _, all := range dropsAll(s) {
			db, out, key := openDSN(t, withoutCache(s)), newOutsider(t, s), dbtest.Key(t)
			ours := acquire(t, db, key+":api")
			for _, name := range []string{":1", ":1", ":2"} {
				require.True(t, yes(t, db, rawSQLFor(t, s, key+name).take))
			}
			joined(func() { require.NoError(t, second(db.ExecContext(testCtx(t), all))) })
			require.False(t, out.try(key+":1"), "a stranger released it")
			require.NoError(t, second(db.ExecContext(testCtx(t), all)))
			require.True(t, out.try(key+":1"))
			require.True(t, out.try(key+":2"))
			require.Empty(t, heldRaw(t, db))
			require.False(t, out.try(key+":api"), "it released a lock of lockctx")
			require.NoError(t, ours.Err())
			require.NoError(t, ours.Close())
			require.NoError(t, db.Close())
		}
	})
}

func TestC41_CloseOfALockKeepsARawLockOfTheSameProcess(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		lk := acquire(t, db, key+":1")
		require.True(t, yes(t, db, rawSQLFor(t, s, key+":2").take))
		require.NoError(t, lk.Close())
		require.True(t, out.try(key+":1"))
		require.False(t, out.try(key+":2"))
		require.True(t, yes(t, db, rawSQLFor(t, s, key+":2").release))
	})
}

func TestC44_RawFormsPairAsTheServerHasThem(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres).CreateDatabase(t)
	db := open(t, s)
	ask := func(function, args string) bool { return yes(t, db, "SELECT "+function+"("+args+")") }
	stranger := func(function, args string) (granted bool) {
		joined(func() {
			if granted = ask(function, args); granted {
				require.NoError(t, second(db.ExecContext(testCtx(t), "SELECT pg_advisory_unlock_all()")))
			}
		})
		return granted
	}
	require.True(t, ask("pg_try_advisory_lock_shared", "11"))
	require.False(t, ask("pg_advisory_unlock", "11"), "a shared lock is released as such")
	require.True(t, stranger("pg_try_advisory_lock_shared", "11"))
	require.False(t, stranger("pg_try_advisory_lock", "11"))
	require.True(t, ask("pg_advisory_unlock_shared", "11"))
	require.True(t, stranger("pg_try_advisory_lock", "11"))

	require.True(t, ask("pg_try_advisory_lock", "0, 11"))
	require.True(t, stranger("pg_try_advisory_lock", "11"), "a key space of its own")
	require.False(t, ask("pg_advisory_unlock", "11"))
	require.False(t, stranger("pg_try_advisory_lock", "0, 11"))
	require.True(t, ask("pg_advisory_unlock", "0, 11"))

	require.True(t, ask("pg_try_advisory_lock", "11"))
	require.True(t, ask("pg_try_advisory_lock_shared", "11"), "both at once")
	require.True(t, ask("pg_advisory_unlock", "11"))
	require.False(t, stranger("pg_try_advisory_lock", "11"))
	require.True(t, ask("pg_advisory_unlock_shared", "11"))
	require.True(t, stranger("pg_try_advisory_lock", "11"))
	require.Empty(t, heldBy(t, db))
}

func TestC48_AParkedSessionComesBackWhenTheLastLockIsReleased(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		db, out, key := openDSN(t, withoutCache(view)), newOutsider(t, view), dbtest.Key(t)
		db.SetMaxOpenConns(1)
		id := askID(testCtx(t), t, view, db)
		text := rawSQLFor(t, view, key)
		for range 3 {
			require.True(t, yes(t, db, text.take))
		}
		for range 2 {
			require.True(t, yes(t, db, text.release))
			require.NotEqual(t, id, askID(testCtx(t), t, view, db), "it was in service with a lock")
			require.False(t, out.try(key))
		}
		require.True(t, yes(t, db, text.release))
		require.Equal(t, id, askID(testCtx(t), t, view, db), "it was not in service without one")
		for _, all := range dropsAll(s) {
			require.True(t, yes(t, db, text.take))
			require.NoError(t, second(db.ExecContext(testCtx(t), all)))
			require.Equal(t, id, askID(testCtx(t), t, view, db), "the record outlived %q", all)
		}
	})
}

func TestC48_ARawLockIsFreeSoonAfterItsConnectionIsReset(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		relay, out, key := s.Relay(t), newOutsider(t, s), dbtest.Key(t)
		db := openDSN(t, relay.DSN())
		text := rawSQLFor(t, s, key)
		require.True(t, yes(t, db, text.take))
		require.False(t, out.try(key))
		relay.Reset()
		out.free(key, promptly)
		var released sql.NullBool
		_ = db.QueryRowContext(testCtx(t), text.release).Scan(&released)
		require.False(t, released.Bool)
		require.Eventually(t, func() bool { return byRow(text.take)(testCtx(t), db) == nil }, promptly, time.Millisecond)
		require.True(t, yes(t, db, text.release))
	})
}

func TestC70_CodeThatTheTextDoesNotShowIsAskedFor(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		key := dbtest.Key(t)
		view, _, takes := procedures(t, s, key)
		_, err := view.Open(t).Exec("CREATE TABLE notes (a VARCHAR(200))")
		require.NoError(t, err)
		db, out := open(t, view), newOutsider(t, view)
		db.SetMaxOpenConns(1)
		id := askID(testCtx(t), t, view, db)
		inText := "INSERT INTO notes VALUES ('GET_LOCK(''x'', 1) and pg_advisory_lock(1)')"
		require.NoError(t, second(db.ExecContext(testCtx(t), inText)))
		require.Equal(t, id, askID(testCtx(t), t, view, db), "a text is no call")

		require.NoError(t, second(db.ExecContext(testCtx(t), takes)))
		require.NotEqual(t, out.holder(key), askID(testCtx(t), t, view, db), "the pool has the lock")
		if s.Kind() == dbtest.MariaDB { // it does not say what a procedure took
			require.True(t, out.try(key))
		} else {
			require.False(t, out.try(key))
			require.True(t, yes(t, db, rawSQLFor(t, view, key).release))
		}

		tx, err := db.BeginTx(testCtx(t), nil)
		require.NoError(t, err)
		require.NoError(t, second(tx.ExecContext(testCtx(t), takes)))
		require.False(t, out.try(key))
		require.NoError(t, tx.Commit())
		require.True(t, out.try(key))
	})
}
