package lockctx_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// Where the server does not show what a session holds it is asked for the names, so
// they must be read as the server reads them, or not at all.
func TestANameIsReadAsTheServerReadsIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		if !s.IsMySQL() {
			return // which shows it
		}
		r := newRestricted(t, s)
		r.grant("SELECT", "*")
		db, other, key := r.open(), s.Open(t), dbtest.Key(t)
		db.SetMaxOpenConns(1)
		for _, name := range []string{
			"'" + key + "'", `"` + key + `"`, "'" + key + "''s'", `"` + key + `""s"`, `'` + key + `\'s'`, `'` + key + `\\'`, `'` + key + `\n'`, `'` + key + `\%'`,
			"'" + key + "' '2'", "'" + key + "'\n'3'", "_utf8mb4'" + key + "'", "N'" + key + "'", "CONCAT('" + key + "', 1)", "'" + key + " '", "'" + key + "é'",
			"(('" + key + "'))", "'" + key + "' /* c */", "/*!50000 '" + key + "' */", "UPPER('" + key + "')", "LOWER('" + key + "')", "'" + key + "' COLLATE utf8mb4_bin",
			"0x" + "6b6579", "X'6b6579'", "_binary '" + key + "'", "(SELECT '" + key + "')", "IF(1, '" + key + "', '')", "TRIM(' " + key + "')",
		} {
			ask := func(query string) (got sql.NullInt64) {
				require.NoError(t, other.QueryRow(query).Scan(&got), query)
				return got
			}
			for _, take := range []string{"SELECT GET_LOCK(" + name + ", 0)", "DO GET_LOCK(" + name + ", 0)", "SET @got = GET_LOCK(" + name + ", 0)"} {
				require.NoError(t, second(db.ExecContext(testCtx(t), take)))
				id := askID(testCtx(t), t, s, db)
				require.NotEqual(t, id, ask("SELECT IS_USED_LOCK("+name+")").Int64, "%s: the pool has it", take)
				require.NoError(t, second(db.ExecContext(testCtx(t), "SELECT RELEASE_LOCK("+name+")")))
				require.False(t, ask("SELECT IS_USED_LOCK("+name+")").Valid, "%s: it is held after its release", take)
				require.Empty(t, heldBy(t, db), take)
			}
			for _, v := range []any{key + "'", []byte(key + "\\"), key + "\x00", key + "é"} {
				require.NoError(t, second(db.ExecContext(testCtx(t), "DO GET_LOCK(?, 0)", v)))
				id := askID(testCtx(t), t, s, db)
				var used sql.NullInt64
				require.NoError(t, other.QueryRow("SELECT IS_USED_LOCK(?)", v).Scan(&used))
				require.NotZero(t, used.Int64, "%v", v)
				require.NotEqual(t, id, used.Int64, "%v: the pool has it", v)
				require.NoError(t, second(db.ExecContext(testCtx(t), "DO RELEASE_LOCK(?)", v)))
				require.Empty(t, heldBy(t, db))
			}
		}
	})
}

func TestALockIsKeptWhoseNameTheTextDoesNotTell(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		take, release, args := "SELECT GET_LOCK(CONCAT(?, ?), 1)", "SELECT RELEASE_LOCK(CONCAT(?, ?))", []any{key[:3], key[3:]}
		if s.IsMySQL() {
			r := newRestricted(t, s)
			r.grant("SELECT", "*")
			db = r.open()
		} else {
			take, release, args = "SELECT pg_try_advisory_lock(abs($1::bigint))", "SELECT pg_advisory_unlock(abs($1::bigint))", []any{lockID(t, key)}
			if lockID(t, key) < 0 {
				take, release = "SELECT pg_try_advisory_lock(-abs($1::bigint))", "SELECT pg_advisory_unlock(-abs($1::bigint))"
			}
		}
		for range 3 {
			require.True(t, yes(t, db, take, args...))
			require.False(t, out.try(key))
			require.True(t, yes(t, db, take, args...))
			require.True(t, yes(t, db, release, args...))
			require.False(t, out.try(key), "it was taken twice")
			joined(func() { require.False(t, yes(t, db, release, args...)) })
			require.False(t, out.try(key))
			require.True(t, yes(t, db, release, args...))
			require.True(t, out.try(key))
			require.NoError(t, byExec(take, args...)(testCtx(t), db))
			require.False(t, out.try(key), "nobody saw the answer, but it is held")
			require.NoError(t, byExec(release, args...)(testCtx(t), db))
			require.True(t, out.try(key))
			require.Empty(t, heldBy(t, db))
		}
	})
}

func TestExecOfALockStatementGivesTheDriversResult(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		text, prepared := rawSQLFor(t, s, dbtest.Key(t)), preparedFor(t, s, dbtest.Key(t))
		results := func(db *sql.DB) (got []string) {
			db.SetMaxOpenConns(1)
			show := func(res sql.Result, err error) {
				require.NoError(t, err)
				n, err := res.RowsAffected()
				id, idErr := res.LastInsertId()
				got = append(got, fmt.Sprint(n, err, id, idErr))
			}
			stmt, err := db.PrepareContext(testCtx(t), prepared.take)
			require.NoError(t, err)
			defer stmt.Close()
			show(db.ExecContext(testCtx(t), text.take))
			show(db.ExecContext(testCtx(t), text.release))
			show(db.ExecContext(testCtx(t), prepared.take, prepared.args...))
			show(stmt.ExecContext(testCtx(t), prepared.args...))
			show(db.ExecContext(testCtx(t), prepared.release, prepared.args[0]))
			show(db.ExecContext(testCtx(t), prepared.release, prepared.args[0]))
			return got
		}
		require.Equal(t, results(s.Open(t)), results(open(t, s)))
	})
}
