package sqlscan_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "github.com/lockdb/lockdb/internal/sqlscan"
)

const (
	nothing = Verdict(0)
	all     = MayUnlock | DropsAll
	asked   = MayLock | Opaque
)

type scanCase struct {
	d    Dialect
	sql  string
	want Verdict
}

var scanCases = []scanCase{
	// Texts without locks.
	{MySQL, "", nothing},
	{MySQL, "SELECT 1", nothing},
	{MySQL, "SELECT id, locked FROM locks WHERE blocked = ? AND shared (id)", nothing},
	{MySQL, "INSERT INTO blocks (a, b) VALUES (?, ?)", nothing},
	{MySQL, "REPLACE INTO t (a) VALUES (1)", nothing},
	{MySQL, "SELECT IS_FREE_LOCK('x'), IS_USED_LOCK('x')", nothing},
	{MySQL, "SELECT GET_LOCK FROM t", nothing},
	{MySQL, "SELECT t.release_lock, (1) FROM t", nothing},
	{MySQL, "SELECT get_lock_count('x')", nothing},
	{MySQL, "SET autocommit = 0", nothing},
	{MySQL, "BEGIN", nothing},
	{MySQL, "BEGIN WORK;", nothing},
	{MySQL, "START TRANSACTION", nothing},
	{MySQL, "SET @call = 1, @execute = 2", nothing},
	{MySQL, "LOCK TABLES t WRITE", nothing},
	{MySQL, "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = VALUES (a);", nothing},
	{MySQL, "SELECT 1; SELECT 2", nothing},
	{Postgres, "SELECT 1", nothing},
	{Postgres, "INSERT INTO t (a) VALUES ($1) ON CONFLICT DO NOTHING", nothing},
	{Postgres, `SELECT call, "do", execute FROM (SELECT 1 AS call) q`, nothing},
	{Postgres, "SELECT * FROM t FETCH FIRST 5 ROWS ONLY", nothing},
	{Postgres, "SELECT pg_advisory_xact_lock(1), pg_try_advisory_xact_lock(1)", nothing},
	{Postgres, "SELECT pg_advisory_xact_lock_shared(1), pg_try_advisory_xact_lock_shared($1)", nothing},
	{Postgres, "SELECT 'pg_advisory_lock'::regproc", nothing},
	{Postgres, "DISCARD PLANS", nothing},
	{Postgres, "RESET ALL", nothing},
	{Postgres, "UPDATE t SET a = 1; UPDATE t SET b = 2", nothing},
	{Postgres, "-- name: Blocks :many\nSELECT a\n  FROM f\n(1)", nothing},
	{Postgres, "/* a /* b */ pg_advisory_lock(1) */ SELECT 1", nothing},
	{Postgres, "SELECT GET_LOCK('x', 1)", nothing},
	{MySQL, "SELECT pg_advisory_lock(1)", nothing},

	// One plain call.
	{MySQL, "SELECT GET_LOCK('x', 5)", MayLock},
	{MySQL, "select get_lock ( ? , ? ) as l from dual ;", MayLock},
	{MySQL, "SELECT GET_LOCK(\"x\", -1) 'l'", MayLock},
	{MySQL, "SELECT GET_LOCK('it''s', 0.5)", MayLock},
	{MySQL, "SELECT `GET_LOCK`('x', 0)", MayLock},
	{MySQL, `SELECT "GET_LOCK"('x', 0)`, MayLock},
	{MySQL, "SELECT RELEASE_LOCK('x')", MayUnlock},
	{MySQL, "SELECT RELEASE_LOCK(?)", MayUnlock},
	{MySQL, "SELECT RELEASE_ALL_LOCKS()", all},
	{Postgres, "SELECT pg_advisory_lock(42)", MayLock},
	{Postgres, "SELECT pg_catalog.pg_advisory_lock(-42, $1)", MayLock},
	{Postgres, `SELECT "pg_catalog" . "pg_advisory_lock" (1)`, MayLock},
	{Postgres, "SELECT pg_try_advisory_lock($1::bigint) AS ok", MayLock},
	{Postgres, "SELECT pg_try_advisory_lock_shared('42') ok", MayLock},
	{Postgres, "SELECT pg_advisory_lock_shared('42'::int::bigint)", MayLock},
	{Postgres, "SELECT pg_advisory_unlock(42)", MayUnlock},
	{Postgres, "SELECT pg_advisory_unlock_shared(1, 2);", MayUnlock},
	{Postgres, "SELECT pg_advisory_unlock_all()", all},
	{Postgres, "DISCARD ALL", all},
	{Postgres, " discard /* x */ all ; ", all},

	// Calls that the text alone does not tell enough of.
	{MySQL, "SELECT GET_LOCK(CONCAT('x', ?), 1)", asked},
	{MySQL, "SELECT GET_LOCK(@n, 1)", asked},
	{MySQL, "SELECT GET_LOCK('a' 'b', 1)", asked},
	{MySQL, "SELECT GET_LOCK(N'a', 1)", asked},
	{MySQL, "SELECT GET_LOCK('a')", asked},
	{MySQL, "SELECT GET_LOCK('a', 1), GET_LOCK('b', 1)", asked},
	{MySQL, "SELECT COALESCE(GET_LOCK('a', 1), 0)", asked},
	{MySQL, "SELECT GET_LOCK('a', 1) FROM t", asked},
	{MySQL, "SELECT 1 FROM t WHERE GET_LOCK('a', 1) = 1", asked},
	{MySQL, "SET @ok = GET_LOCK('a', 1)", asked},
	{MySQL, "VALUES (GET_LOCK('x',0))", asked},
	{MySQL, "SELECT test.GET_LOCK('a', 1)", asked},
	{MySQL, "SELECT `test` . `GET_LOCK`('a', 1)", asked},
	{MySQL, "SELECT test.RELEASE_LOCK('a')", MayUnlock | Opaque},
	{MySQL, "SELECT pg_catalog.GET_LOCK('a', 1)", asked},
	{MySQL, "SELECT RELEASE_LOCK(n) FROM t", MayUnlock | Opaque},
	{MySQL, "SELECT RELEASE_ALL_LOCKS() + 0", all | Opaque},
	{MySQL, "SELECT RELEASE_LOCK(IF(GET_LOCK('a',1),'a','b'))", MayLock | MayUnlock | Opaque},
	{Postgres, "SELECT mine.pg_try_advisory_lock(1)", asked},
	{Postgres, `SELECT "PG_Catalog".pg_advisory_lock(1)`, asked},
	{Postgres, `SELECT PG_Catalog.PG_Advisory_Lock(1)`, MayLock},
	{Postgres, `SELECT "PG_advisory_lock"(1)`, asked},
	{Postgres, "SELECT db.pg_catalog.pg_advisory_lock(1)", asked},
	{Postgres, "SELECT 1; SELECT pg_try_advisory_lock(1)", asked},
	{Postgres, "SELECT pg_try_advisory_lock(1); SELECT 1", asked},
	{MySQL, "SELECT 1; SELECT GET_LOCK('a', 1)", asked},
	{Postgres, "SELECT pg_advisory_lock(hashtext($1))", asked},
	{Postgres, "SELECT pg_advisory_lock(id) FROM jobs LIMIT 1", asked},
	{Postgres, "SELECT pg_advisory_lock(1) AS", asked},
	{Postgres, "SELECT * FROM pg_try_advisory_lock(1)", asked},
	{Postgres, "SELECT pg_advisory_lock($1::text::bigint)", asked},
	{Postgres, "SELECT pg_advisory_lock(0x2A)", asked},
	{Postgres, "SELECT pg_advisory_lock(9223372036854775808)", asked},
	{Postgres, "SELECT pg_advisory_lock(-9223372036854775808)", MayLock},
	{Postgres, "WITH x AS (SELECT pg_try_advisory_lock(1) ok) SELECT ok FROM x", asked},
	{Postgres, "COPY (SELECT pg_advisory_lock(1)) TO STDOUT", asked},
	{Postgres, "SELECT U&\"pg_advisory\\005Flock\"(1)", asked},
	{Postgres, "SELECT u&\"pg_advisory!005Flock\" UESCAPE '!' (1)", asked},
	{Postgres, "SELECT U&\"a\" , (1)", nothing},
	{Postgres, "SELECT U&\"a\"\"b\"(1)", nothing},

	// White space and comments before the parenthesis.
	{MySQL, "SELECT GET_LOCK\n\t('x', 0)", MayLock},
	{MySQL, "SELECT GET_LOCK -- c\n ('x', 0)", MayLock},
	{MySQL, "SELECT GET_LOCK # (\n ('x', 0)", MayLock},
	{MySQL, "SELECT GET_LOCK --\n ('x', 0)", MayLock},
	{MySQL, "SELECT GET_LOCK/* c */('x', 0)", MayLock},
	{MySQL, "SELECT GET_LOCK /**/ ('x', 0)", MayLock},
	{Postgres, "SELECT pg_advisory_lock /* /* n */ c */ -- x\r (1)", MayLock},
	{Postgres, "SELECT pg_advisory_lock -- (2)\n\n (1)", MayLock},
	{MySQL, "SELECT 5--1, GET_LOCK('x', 0)", asked},
	{MySQL, "SELECT 5-- GET_LOCK('x', 0)", nothing},
	{MySQL, "SELECT 5 -- \r, GET_LOCK('x', 0)", nothing},
	{Postgres, "SELECT 5 -- \r, pg_advisory_lock(1)", asked},
	{Postgres, "SELECT 5--1, pg_advisory_lock(1)", nothing},
	{Postgres, "SELECT 5 # pg_try_advisory_lock(1)::int", asked},

	// Versioned comments are code, and doubted.
	{MySQL, "SELECT 1 /*!50000 , GET_LOCK('x', 0) */", asked},
	{MySQL, "/*!50000 SELECT*/ /*M!100100 GET_LOCK*/('x', 0)", asked},
	{MySQL, "SELECT GET_LOCK/*!(*/'x', 0)", asked},
	{MySQL, "SELECT GET_LOCK/*!50000(*/'x', 0)", asked},
	{MySQL, "SELECT GET_LOCK/*!999999(*/('x', 0)", asked},
	{MySQL, "SELECT /*!99999 it's */ GET_LOCK('x', 0)", asked},
	{MySQL, "SELECT /*! 1 /* n */ + GET_LOCK('x', 0) */", asked},
	{MySQL, "/*!50000 CALL */ p()", asked},
	{MySQL, "/*!40101 SET NAMES utf8 */", nothing},
	{MySQL, "/*!40101 SET NAMES utf8 */; /*!40014 SET SQL_MODE='' */", nothing},
	{MySQL, "SELECT /*!99999 ' */ 1 /*!50000 , GET_LOCK('x', 0) */", asked},
	{MySQL, "SELECT /*!50000 1 /*!99999 ' */, get_lock('x', 0) */", asked},
	{MySQL, "SELECT /*!50000 1 */ /*!50000 , 2 */ FROM block_locks", nothing},
	{MySQL, "SELECT /*+ MAX_EXECUTION_TIME(1000) */ 1", nothing},
	{MySQL, "SELECT 2*/*c*/3", nothing},
	{MySQL, "/* RELEASE_ALL_LOCKS() */ SELECT 1", nothing},
	{MySQL, "/* a /* b */ SELECT GET_LOCK('x', 0)", MayLock},
	{Postgres, "SELECT 1 /*!50000 , pg_advisory_lock(1) */", nothing},

	// What stands in a string is no call.
	{MySQL, "INSERT INTO t VALUES ('GET_LOCK(')", nothing},
	{MySQL, "INSERT INTO t VALUES ('it''s GET_LOCK(')", nothing},
	{MySQL, `INSERT INTO t VALUES ("GET_LOCK('x')")`, nothing},
	{MySQL, `INSERT INTO t VALUES ('a\\', ' GET_LOCK(1)')`, nothing},
	{MySQL, "INSERT INTO t VALUES ('a''', \"b\"\"RELEASE_ALL_LOCKS()\")", nothing},
	{MySQL, "SELECT `a``GET_LOCK(` FROM t", nothing},
	{Postgres, "INSERT INTO t VALUES ('pg_advisory_lock(1)', $$pg_advisory_lock(1)$$, $a$ $$ pg_advisory_lock(1) $a$)", nothing},
	{Postgres, `INSERT INTO t VALUES (E'it\'s pg_advisory_lock(1)')`, nothing},
	{Postgres, `SELECT 'a\' , pg_advisory_lock(1)`, asked},
	{Postgres, `SELECT E'a\\' , pg_advisory_lock(1)`, asked},
	{Postgres, `SELECT "a""pg_advisory_lock("(1)`, nothing},
	{Postgres, "SELECT a$b$pg_advisory_lock(1)", nothing},
	{Postgres, "SELECT $1$, pg_advisory_lock(1)", asked},

	// A quote after a backslash: read both ways.
	{MySQL, `INSERT INTO t VALUES ('it\'s fine (')`, nothing},
	{MySQL, `INSERT INTO t VALUES ('it\'s GET_LOCK(')`, asked},
	{MySQL, `INSERT INTO t VALUES ('it\'s RELEASE_ALL_LOCKS()')`, asked},
	{MySQL, `SELECT 'a\', GET_LOCK(''x'', 1), '''`, asked},
	{MySQL, `SELECT "a\", GET_LOCK('x', 1)`, asked},
	{MySQL, `SELECT 'it\'s', "a\", GET_LOCK('x', 1)`, asked},
	{MySQL, `SELECT RELEASE_ALL_LOCKS(), 'it\'s'`, all | MayLock | Opaque},
	{Postgres, `SELECT 'it\'s pg_advisory_lock(1)'`, asked},
	{Postgres, `SELECT 'a\'', pg_advisory_lock(5) --'`, asked},

	// Statements that run what they do not show.
	{MySQL, "CALL p()", asked},
	{MySQL, " call p", asked},
	{MySQL, "DO GET_LOCK('x', 1)", asked},
	{MySQL, "DO RELEASE_LOCK('x')", asked | MayUnlock},
	{MySQL, "PREPARE s FROM 'SELECT GET_LOCK(?, 1)'", asked},
	{MySQL, "EXECUTE s USING @a", asked},
	{MySQL, "EXECUTE IMMEDIATE 'SELECT 1'", asked},
	{MySQL, "SET STATEMENT max_statement_time = 1 FOR CALL p()", asked},
	{MySQL, "SELECT 1; CALL p()", asked},
	{MySQL, "SELECT 1 ; ; (CALL p())", asked},
	{MySQL, "BEGIN NOT ATOMIC SELECT 1; END", asked},
	{MySQL, "IF 1 THEN SELECT 1; END IF", asked},
	{MySQL, "SHOW CREATE TABLE c.call", nothing},
	{Postgres, "DO $$ BEGIN PERFORM pg_advisory_lock(1); END $$", asked},
	{Postgres, "CALL p()", asked},
	{Postgres, "PREPARE p AS SELECT pg_advisory_lock($1)", asked},
	{Postgres, "EXECUTE p(1)", asked},
	{Postgres, "EXPLAIN ANALYZE EXECUTE p", asked},
	{Postgres, "CREATE TABLE t AS EXECUTE p", asked},
	{Postgres, "FETCH ALL FROM c", asked},
	{Postgres, "MOVE c", asked},
	{Postgres, "BEGIN; CALL p(); COMMIT", asked},

	// Several statements.
	{MySQL, "SELECT GET_LOCK('x', 1); SELECT 1", asked},
	{MySQL, "SELECT GET_LOCK('x', 1);;", asked},
	{Postgres, "SELECT pg_advisory_lock(1); BEGIN", asked},
	{Postgres, "SET LOCAL lock_timeout = 1; SELECT pg_advisory_lock(1)", asked},
	{Postgres, "SELECT 1; DISCARD ALL", all | Opaque},
	{Postgres, "SELECT 1; SELECT pg_advisory_unlock_all()", all | Opaque},
}

func TestC70_ScanTellsCodeFromText(t *testing.T) {
	for _, c := range scanCases {
		got := Scan(c.d, c.sql)
		assert.Equal(t, c.want.String(), got.String(), "%d: %s", c.d, c.sql)
		assert.Equal(t, c.want.String(), refScan(c.d, c.sql).String(), "reference, %d: %s", c.d, c.sql)
	}
}

func TestLetterCaseAndSurroundingsMakeNoDifference(t *testing.T) {
	for _, c := range scanCases {
		quoted := c.d == Postgres && strings.Contains(c.sql, `"`) // where case tells names apart
		if !quoted {
			assert.Equal(t, c.want, Scan(c.d, strings.ToUpper(c.sql)), "%s", c.sql)
		}
		if !quoted && !strings.Contains(c.sql, "/*M!") { // MariaDB knows no /*m!
			assert.Equal(t, c.want, Scan(c.d, strings.ToLower(c.sql)), "%s", c.sql)
		}
		assert.Equal(t, c.want, Scan(c.d, " \n/* x */-- y\n"+c.sql+" "), "%s", c.sql)
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	for _, c := range scanCases {
		require.Zero(t, testing.AllocsPerRun(10, func() { _ = Scan(c.d, c.sql) }), "%s", c.sql)
	}
}

// The pieces are those that mean something to a lexer.
var pieces = strings.Split(`SELECT|select|INSERT|WITH|GET_LOCK|get_lock|RELEASE_LOCK|RELEASE_ALL_LOCKS|pg_advisory_lock|pg_try_advisory_lock_shared|`+
	`pg_advisory_unlock|pg_advisory_unlock_all|pg_advisory_xact_lock|pg_catalog|DISCARD|ALL|CALL|DO|EXECUTE|PREPARE|FETCH|BEGIN|WORK|IF|AS|FROM|DUAL|`+
	`(|)|(|)|,|.|;|'|'|"|"|\|\|?|$1|$$|$a$|$|@|@x|@@|#|--|-- |-|/*|*/|/*!|/*!50000|/*M!|*|/|!|E|e'|U&"|&|UESCAPE|N'|'x'|"x"|1|42|-42|1.5|0x2A|`+
	`::|::bigint|:|[|]|é|a|b| | | |§`, "|")

func TestScanAgreesWithTheReferenceOnRandomTexts(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	n := 15_000
	if testing.Short() {
		n = 3_000
	}
	var found int
	for range n {
		var b strings.Builder
		if random.IntN(2) == 0 {
			b.WriteString("SELECT ")
		}
		for range 1 + random.IntN(14) {
			p := pieces[random.IntN(len(pieces))]
			if p == "§" {
				p = []string{"\n", "\r", "``", "`", "\x00", "\v"}[random.IntN(6)]
			}
			b.WriteString(p)
			if random.IntN(3) == 0 {
				b.WriteByte(' ')
			}
		}
		for _, d := range []Dialect{MySQL, Postgres} {
			if agrees(t, d, b.String()) != 0 {
				found++
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
	assert.Greater(t, found, n/20, "too few of the texts touch a lock to prove anything")
}

// agrees holds Scan, Hidden, Calls and Plain against the reference and each other.
func agrees(t *testing.T, d Dialect, sql string) Verdict {
	got, want := Scan(d, sql), refScan(d, sql)
	if got != want {
		t.Errorf("%d: %q: %v, want %v", d, sql, got, want)
	}
	var calls Verdict
	usual, _ := refWalk(d, sql, refUsual(d))
	for c := range Calls(d, sql) {
		switch c.Fn {
		case Lock, TryLock:
			calls |= MayLock
		case Unlock:
			calls |= MayUnlock
		case UnlockAll:
			calls |= MayUnlock | DropsAll
		}
	}
	if calls&^usual != 0 {
		t.Errorf("%d: %q: Calls gives %v, the text %v", d, sql, calls, usual)
	}
	if got, want := Hidden(d, sql), refHidden(d, sql); got != want {
		t.Errorf("%d: %q: hidden is %v, want %v", d, sql, got, want)
	}
	_, plain := Plain(d, sql)
	if plain != (calls != 0 && got != 0 && !got.Has(Opaque)) {
		t.Errorf("%d: %q: plain is %v, Scan says %v", d, sql, plain, got)
	}
	return got
}

func FuzzScanAgreesWithTheReference(f *testing.F) {
	for _, c := range scanCases {
		f.Add(c.sql)
	}
	for _, p := range pieces {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		sql = strings.ToValidUTF8(sql, "é")
		agrees(t, MySQL, sql)
		agrees(t, Postgres, sql)
	})
}

func FuzzAnyBytesAreScanned(f *testing.F) {
	f.Add("SELECT \xff\xfe(GET_LOCK('\xff")
	f.Add("SELECT $\xff$ pg_advisory_lock(1)")
	f.Fuzz(func(t *testing.T, sql string) {
		for _, d := range []Dialect{MySQL, Postgres} {
			v := Scan(d, sql)
			if v != 0 && Harmless(d, sql) {
				t.Fatalf("%d: %q", d, sql)
			}
			for c := range Calls(d, sql) {
				if v == 0 {
					t.Fatalf("%d: %q: %+v but Scan says nothing", d, sql, c)
				}
			}
		}
	})
}
