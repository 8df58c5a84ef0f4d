package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

// obscure are statements that take key's lock although they are no plain call. fails:
// the statement itself gives an error, after that.
type obscure struct {
	name, text string
	fails      bool
}

func obscures(t testing.TB, s *dbtest.Server, key string) []obscure {
	call := strings.TrimPrefix(rawSQLFor(t, s, key).take, "SELECT ")
	if s.IsMySQL() {
		return []obscure{
			{"a failure after it", "SELECT " + call + ", (SELECT 1 UNION SELECT 2)", true},
			{"a failure of a statement after it", "SELECT " + call + "; SELECT nothing FROM nowhere", true},
			{"several statements", "SELECT 1; SELECT " + call + "; SELECT 2", false},
			{"EXPLAIN of a derived table", "EXPLAIN SELECT * FROM (SELECT " + call + " AS l) d", false},
			{"a versioned comment", "SELECT /*!50000 " + call + " */", false},
			{"a condition", "SELECT 1 FROM DUAL WHERE " + call, false},
			{"PREPARE and EXECUTE", "PREPARE p FROM 'SELECT " + strings.ReplaceAll(call, "'", "''") + "'; EXECUTE p; DEALLOCATE PREPARE p", false},
		}
	}
	return []obscure{
		{"a failure after it", "SELECT CASE WHEN " + call + " THEN 1 / (random() * 0)::int ELSE 0 END", true},
		{"a condition", "SELECT 1 WHERE " + call, false},
		{"a DO block", "DO $$ BEGIN PERFORM " + call + "; END $$", false},
		{"a DO block that fails", "DO $$ BEGIN PERFORM " + call + "; RAISE 'no'; END $$", true},
		{"EXPLAIN ANALYZE", "EXPLAIN ANALYZE SELECT " + call, false},
		{"WITH", "WITH x AS MATERIALIZED (SELECT " + call + " AS l) SELECT l FROM x", false},
	}
}

// wayOut runs a statement and then gives the connection back.
type wayOut struct {
	name  string
	parks bool // the lock stays, with the goroutine
	run   func(ctx context.Context, db *sql.DB, text string) error
}

func inTxWith(end func(*sql.Tx) error) func(context.Context, *sql.DB, string) error {
	return func(ctx context.Context, db *sql.DB, text string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, text)
		if e := end(tx); err == nil {
			err = e
		}
		return err
	}
}

var waysOut = []wayOut{
	{"Exec on the DB", true, func(ctx context.Context, db *sql.DB, text string) error {
		return second(db.ExecContext(ctx, text))
	}},
	{"Query on the DB", true, func(ctx context.Context, db *sql.DB, text string) error {
		rows, err := db.QueryContext(ctx, text)
		if err != nil {
			return err
		}
		for more := true; more; more = rows.NextResultSet() {
			for rows.Next() { //nolint:revive // to its end
			}
		}
		return errors.Join(rows.Err(), rows.Close())
	}},
	{"Commit", false, inTxWith((*sql.Tx).Commit)},
	{"Rollback", false, inTxWith((*sql.Tx).Rollback)},
	{"Close of a Conn", false, func(ctx context.Context, db *sql.DB, text string) error {
		c, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		_, err = c.ExecContext(ctx, text)
		return errors.Join(err, c.Close())
	}},
}

func TestALockThatOnlyTheServerKnowsOfIsNotInThePool(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, dsn := s, s.DSN()
		if s.IsMySQL() {
			dsn += "&multiStatements=true"
		} else {
			dsn += "&default_query_exec_mode=exec"
		}
		for _, way := range waysOut {
			for _, what := range obscures(t, view, dbtest.Key(t)) {
				key, rec := dbtest.Key(t), &recorder{}
				for _, same := range obscures(t, view, key) {
					if same.name == what.name {
						what = same
					}
				}
				db, out := openDSN(t, dsn, driver.WithObserver(rec)), newOutsider(t, view)
				db.SetMaxOpenConns(1)
				name := fmt.Sprintf("%s, %s", what.name, way.name)
				err := way.run(testCtx(t), db, what.text)
				require.Equal(t, what.fails, err != nil, "%s: %v", name, err)

				id := askID(testCtx(t), t, view, db)
				holder := out.holder(key)
				require.True(t, holder == 0 || holder != id, "%s: the pool has it", name)
				require.Len(t, rec.story(), 1, name)
				parks := way.parks && !(s.Kind() == dbtest.MariaDB && strings.Contains(what.text, "EXECUTE")) // which does not say
				if parks {
					require.Equal(t, driver.EventParked, rec.all()[0].Kind, name)
					require.True(t, yes(t, db, rawSQLFor(t, view, key).release), name)
				} else {
					require.Equal(t, driver.EventLeft, rec.all()[0].Kind, name)
				}
				out.free(key, promptly) // the server may have to see the end of the session first
				require.NoError(t, db.Close())
			}
		}
	})
}

func TestTheReleaseInAnAbortedTransactionDoesNotLeaveTheLockInThePool(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
	db.SetMaxOpenConns(1)
	text := rawSQLFor(t, s, key)
	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
		tx, err := db.BeginTx(testCtx(t), nil)
		require.NoError(t, err)
		require.True(t, yes(t, tx, text.take))
		require.Error(t, second(tx.ExecContext(testCtx(t), "SELECT 1 / 0")))
		require.ErrorContains(t, second(tx.ExecContext(testCtx(t), text.release)), "25P02")
		require.False(t, out.try(key))
		_ = end(tx)
		out.free(key, promptly)
	}
}

// cancelQuery ends the statement that a session runs, not the session.
func cancelQuery(s *dbtest.Server, id int64) string {
	if s.IsMySQL() {
		return fmt.Sprintf("KILL QUERY %d", id)
	}
	return fmt.Sprintf("SELECT pg_cancel_backend(%d)", id)
}

func TestAWaitThatIsCutOffLeavesNoLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		cuts := map[string]func(ctx context.Context, db *sql.DB, cancel func(), waits func() int64){
			"its context ends": func(_ context.Context, _ *sql.DB, cancel func(), _ func() int64) { cancel() },
			"KILL QUERY": func(_ context.Context, _ *sql.DB, _ func(), waits func() int64) {
				require.NoError(t, second(s.Open(t).Exec(cancelQuery(s, waits()))))
			},
			"KILL": func(_ context.Context, _ *sql.DB, _ func(), waits func() int64) { s.KillSession(t, waits()) },
		}
		for cut, do := range cuts {
			for _, way := range waysOut {
				db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
				db.SetMaxOpenConns(2)
				require.True(t, out.take(key))
				ctx, cancel := context.WithCancel(testCtx(t))
				text := strings.Replace(rawSQLFor(t, s, key).block, ", 2)", ", 30)", 1) + " -- " + key
				waited := async(func() error { return way.run(ctx, db, text) })
				waits := func() (id int64) {
					require.Eventually(t, func() bool {
						for _, session := range s.Sessions(t) {
							if strings.Contains(session.Query, key) && session.Command != "idle" && session.Command != "Sleep" {
								id = session.ID
							}
						}
						return id != 0
					}, promptly, time.Millisecond)
					return id
				}
				waits()
				do(ctx, db, cancel, waits)
				_ = within(t, waited, promptly, cut+", "+way.name)
				out.release(key)
				out.free(key, promptly)
				require.Empty(t, heldBy(t, db), cut+", "+way.name)
				require.True(t, yes(t, db, rawSQLFor(t, s, key).take))
				require.True(t, yes(t, db, rawSQLFor(t, s, key).release))
				cancel()
				require.NoError(t, db.Close())
			}
		}
	})
}

func TestTheRollbackOfDatabaseSQLItselfReleases(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		db.SetMaxOpenConns(1)
		text := rawSQLFor(t, s, key)
		for range 20 {
			ctx, cancel := context.WithCancel(testCtx(t))
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			require.True(t, yes(t, tx, text.take))
			require.False(t, out.try(key))
			cancel() // and nobody ends tx
			out.free(key, promptly)
			require.NoError(t, db.PingContext(testCtx(t)))
		}
		require.Empty(t, heldBy(t, db))
	})
}
