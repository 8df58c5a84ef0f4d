package sqlscan_test

import (
	"context"
	"database/sql"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	. "github.com/lockdb/lockdb/internal/sqlscan"
)

var (
	serverTexts = flag.Int("sqlscan.texts", 400, "so many texts are put to each server")
	serverSeed  = flag.Uint64("sqlscan.seed", 1, "what texts these are, 0 for other ones each time")
)

// A grammar makes texts of which a good part takes a lock: in each the call and
// what stands around it are spoilt in the ways that lexers differ about.
type grammar struct {
	settings []string // of the session, one for each text
	around   []string // the statement, with § for the call and what comes before it in a list
	before   []string // expressions with a comma behind
	calls    []string // tokens, with a blank at each |
	blanks   []string
}

var grammars = map[Dialect]grammar{
	MySQL: {
		settings: []string{
			"SET sql_mode=''", "SET sql_mode='ANSI_QUOTES'", "SET sql_mode='NO_BACKSLASH_ESCAPES'",
			"SET sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", "SET sql_mode='IGNORE_SPACE,PIPES_AS_CONCAT'",
		},
		around: []string{
			"SELECT §", "select §", "(SELECT §)", "DO §", "SET @a = (SELECT COUNT(*) FROM (SELECT §) d)", "SELECT 1 FROM DUAL WHERE (§) IS NOT NULL",
			"SELECT * FROM (SELECT §) d", "EXPLAIN SELECT * FROM (SELECT §) d", "WITH x AS (SELECT §) SELECT * FROM x", "SELECT 1 UNION SELECT §",
			"SELECT 1; SELECT §", "SELECT §; SELECT 1", "/*!50000 SELECT */ §", "SELECT /*!50000 § */", "SELECT /*!99999 1 */ §", "SELECT /*! §", "SELECT 'a', §", "SELECT 'a' AS 'b', §",
			"SHOW VARIABLES WHERE (§) = 1", "INSERT INTO t SELECT §", "UPDATE t SET a = (§)", "DELETE FROM t WHERE (§)", "REPLACE INTO t VALUES (§)", "VALUES ROW(§)", "EXECUTE IMMEDIATE 'SELECT §'",
			"PREPARE s FROM 'SELECT §'; EXECUTE s", "BEGIN; SELECT §", "SET @q = 'SELECT §'; PREPARE s FROM @q; EXECUTE s", "BEGIN NOT ATOMIC SELECT §; END", "SELECT '§'", `SELECT "§"`, "SELECT `§`", "SELECT 1 -- §", "SELECT 1 # §", "SELECT 1 /* § */",
			"HANDLER t OPEN; HANDLER t READ FIRST WHERE §", "CALL p(§)", "SELECT CASE 1e0WHEN 1e0THEN(§)END", "SELECT 1.e1,§", "SELECT @a:=§", "ANALYZE SELECT §", "TABLE t; DO §",
		},
		before: []string{
			"", "", "", `'it\'s', `, `'a\\', `, `'a\', `, `"a\", `, `"it\"s", `, `"a""b", `, `'a''b', `, "5--1, ", "5-- x\n, ", "5--x, ", "@x, ", "@'a b', ", `@"a'b", `, "@`q'`, ", "N'x\\'', ",
			"_utf8mb4'x', ", "0x41, ", "x'41', ", "b'1', ", ".5, ", "1e5, ", "'a' 'b', ", "'a'\n'b\\'', ", "1 /* ' */, ", "1 /*!50000 , 2 */, ", "1 /*!99999 ' */, ", "1 /*M!100000 , ' */, ", "1 # '\n, ", "1 -- '\n, ", "1 --\r'\n, ",
			"@@version, ", "@@session.sql_mode, ", "'\\\\\\'', ", `'"', `, `"'", `, "`a`, ", "$a, ", "1$, ", "é, ", "'é', ", "'\\'', \"\\\"\", ",
		},
		calls: []string{
			"GET_LOCK|(|'NAME'|,|0|)", "get_lock|(|'NAME'|,|0|)", `GET_LOCK|(|"NAME"|,|0|)`, "`GET_LOCK`|(|'NAME'|,|0|)", "Get_Lock|(|CONCAT|('NA','ME')|,|0|)",
			"COALESCE(|GET_LOCK|(|'NAME'|,|0|)|,|1|)", "GET_LOCK|(|@@version|,|0|)", "1|+|GET_LOCK|(|'it\\'s'|,|0|)", "GET_LOCK|(|'NAME'|,|GET_LOCK|(|'B'|,|0|)|)", "1*GET_LOCK|('NAME',0)", "-GET_LOCK|('NAME',0)", "\"GET_LOCK\"|('NAME',0)",
		},
		blanks: []string{
			"", "", "", "", " ", "\n", "\t", "\v", "\f", "\r", "/**/", "/* ' */", "/* \" */", "-- x\n", "--\n", "--\t'\n", "#'\n", "/*!50000 */", "/*!*/", "/*! */", "/*!99999 ' */", "/*M!100000 */",
			"/*!50000", "*/", "/* /* */", "-- \r\n", "/*!999999 ' */", "/*+ x */", "/*!80000*/", "\x00", "\u00a0",
		},
	},
	Postgres: {
		settings: []string{"SET standard_conforming_strings = on", "SET standard_conforming_strings = off"},
		around: []string{
			"SELECT §", "select §", "(SELECT §)", "VALUES (§)", "SELECT * FROM (SELECT §) d", "WITH x AS (SELECT §) SELECT * FROM x", "EXPLAIN ANALYZE SELECT §", "SELECT 1; SELECT §", "SELECT §; SELECT 1",
			"DO $$ BEGIN PERFORM §; END $$", "DO 'BEGIN PERFORM §; END'", "DO $a$ BEGIN EXECUTE $$ SELECT § $$; END $a$", "PREPARE p AS SELECT §; EXECUTE p; DEALLOCATE p", "BEGIN; DECLARE c CURSOR FOR SELECT §; FETCH c; COMMIT",
			"CREATE TEMP TABLE IF NOT EXISTS x AS SELECT §", "INSERT INTO t SELECT §", "UPDATE t SET a = 2 WHERE (SELECT COUNT(*) FROM (SELECT §) d) > 0", "SELECT '§'", "SELECT $$§$$", "SELECT $a$§$a$", `SELECT "§"`, "SELECT 1 -- §", "SELECT 1 /* § */", "SELECT E'§'", "SELECT 1/* /* */ § */", "TABLE t; SELECT §",
			"SELECT CASE WHEN (SELECT COUNT(*) FROM (SELECT §) d) > 0 THEN 1 END", "SELECT 1 FROM t ORDER BY §", "MERGE INTO t USING (SELECT §) d ON true WHEN MATCHED THEN DO NOTHING",
		},
		before: []string{
			"", "", "", `'it''s', `, `'a\', `, `'it\'s', `, `E'it\'s', `, `E'a\\', `, `e'a\\\'', `, `E'a'` + "\n" + `'b\'', `, "$$'$$, ", "$a$ $$ ' $a$, ", "$é$'$é$, ", "5--1\n, ", "1 /* ' */, ", "1 /* /* */ ' */, ", "1 -- '\n, ", "1 -- '\r, ",
			"B'1', ", "X'41', ", "N'a', ", "U&'a', ", `U&'\0061''', `, `U&'!0061' UESCAPE '!', `, `U&"a" UESCAPE '!', `, "1::int, ", "1.5, ", "1e5, ", ".5, ", "'a'\n'b', ", "'a' -- x\n'b', ", `"a", `, "ARRAY[1], ", "'$$', ", `'"', `, "now(), ", "1$$a$$, ", "$1$$'$$, ", `E'\\' '', `,
		},
		calls: []string{
			"pg_try_advisory_lock|(|42|)", "PG_TRY_ADVISORY_LOCK|(|42|)", "pg_advisory_lock|(|1|,|2|)", "pg_catalog|.|pg_advisory_lock_shared|(|42|)", `"pg_try_advisory_lock"|(|'42'|)`, `pg_catalog."pg_advisory_lock"|(|42|::|int|)`,
			`U&"pg_advisory\005Flock"|(|42|)`, `U&"pg_advisory!005Flock"|UESCAPE|'!'|(|42|)`, `u&"pg_try!005fadvisory_lock"|uescape|'!'|(|42|)`, `U&"pg\005f\0061dvisory_lock"|(|1|)`, "COALESCE(|pg_try_advisory_lock|(|42|)|,|false|)", "pg_advisory_lock|(|hashtext|('a')|)", "pg_try_advisory_lock_shared|(|$$42$$|)", "1 + pg_try_advisory_lock|(|42|)|::|int",
		},
		blanks: []string{
			"", "", "", "", "", " ", "\n", "\t", "\f", "\r", "/**/", "/* ' */", "/* $$ */", "-- x\n", "--'\n", "--$$\r", "/* /* ' */ */", "/* /* */", "/*!50000 */", "\v", "\u00a0", "/*/*/**/*/*/",
		},
	},
}

func (g grammar) text(random *rand.Rand) string {
	one := func(of []string) string { return of[random.IntN(len(of))] }
	var call strings.Builder
	call.WriteString(one(g.before))
	for token := range strings.SplitSeq(one(g.calls), "|") {
		if random.IntN(3) == 0 {
			call.WriteString(one(g.blanks))
		}
		call.WriteString(token)
	}
	return strings.Replace(one(g.around), "§", call.String(), 1)
}

// TestNoServerTakesALockThatScanDoesNotSee asks those who know.
func TestNoServerTakesALockThatScanDoesNotSee(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute+time.Duration(*serverTexts)*time.Second/4)
		defer cancel()
		view := s.CreateDatabase(t)
		d, dsn := MySQL, view.DSN()+"&multiStatements=true"
		held := func(c *sql.Conn) (n int) {
			require.NoError(t, c.QueryRowContext(ctx, "SELECT RELEASE_ALL_LOCKS()").Scan(&n))
			return n
		}
		if !s.IsMySQL() {
			d, dsn = Postgres, view.DSN()+"&default_query_exec_mode=exec" // which goes with all of the settings
			held = func(c *sql.Conn) (n int) {
				_, _ = c.ExecContext(ctx, "ROLLBACK")
				require.NoError(t, c.QueryRowContext(ctx, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()").Scan(&n))
				_, err := c.ExecContext(ctx, "SELECT pg_advisory_unlock_all()")
				require.NoError(t, err)
				return n
			}
		}
		db, err := sql.Open(s.Driver(), dsn)
		require.NoError(t, err)
		defer db.Close()
		c, err := db.Conn(ctx)
		require.NoError(t, err)
		defer c.Close()
		for _, text := range []string{"CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)"} {
			_, err = c.ExecContext(ctx, text)
			require.NoError(t, err)
		}

		seed := *serverSeed
		if seed == 0 {
			seed = rand.Uint64()
		}
		random, g, took := rand.New(rand.NewPCG(seed, 1)), grammars[d], 0
		name := strings.ReplaceAll(dbtest.Key(t), ":", "-")
		for range *serverTexts {
			setting := g.settings[random.IntN(len(g.settings))]
			_, err := c.ExecContext(ctx, setting)
			require.NoError(t, err)
			text := strings.ReplaceAll(g.text(random), "NAME", name)
			named := 0
			if s.IsMySQL() {
				runMySQL(ctx, c, text)
				names, all := lockNames(text)
				for _, name := range names {
					named += release(ctx, t, c, name)
				}
				if all {
					require.Zero(t, held(c), "by a name that the text does not show, but is not hidden: seed %d, %s: %q", seed, setting, text)
				}
			} else {
				runPostgres(ctx, c, text)
			}
			if named+held(c) > 0 {
				took++
				require.True(t, Scan(d, text).Has(MayLock), "seed %d, %s: %q", seed, setting, text)
			}
		}
		require.Greater(t, took, *serverTexts/20, "too few of the texts took a lock to prove anything")
		t.Logf("%d of %d took a lock", took, *serverTexts)
	})
}

// runMySQL lets the statements of a text run to their end, whatever that is.
func runMySQL(ctx context.Context, c *sql.Conn, text string) {
	rows, err := c.QueryContext(ctx, text)
	if err != nil {
		return
	}
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
		}
	}
	_ = rows.Err()
}

// runPostgres is runMySQL in one message, as pgx's simple protocol sends it: that
// refuses some of the settings.
func runPostgres(ctx context.Context, c *sql.Conn, text string) {
	_ = c.Raw(func(dc any) error {
		_, _ = dc.(*stdlib.Conn).Conn().PgConn().Exec(ctx, text).ReadAll()
		return nil
	})
}

// lockNames are the locks that a text of MySQL's may take, by name; all is false if
// there may be others. It is all that MariaDB can be asked for.
func lockNames(text string) (names []string, all bool) {
	all = !Hidden(MySQL, text)
	for c := range Calls(MySQL, text) {
		if c.Fn != Lock {
			continue
		}
		if c.N == 1 && c.Keys[0].Kind == Text {
			names = append(names, c.Keys[0].Text)
		} else {
			all = false
		}
	}
	return names, all
}

// release releases the lock as often as it is held.
func release(ctx context.Context, t *testing.T, c *sql.Conn, name string) (times int) {
	t.Helper()
	for {
		var yes sql.NullBool
		if err := c.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", name).Scan(&yes); err != nil || !yes.Bool {
			return times // the name may be one that the server refuses
		}
		times++
	}
}
