package sqlscan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/sqlscan"
)

func TestHiddenTellsWhetherATextMayLockByOtherCallsThanItShows(t *testing.T) {
	for _, tc := range []struct {
		d    sqlscan.Dialect
		sql  string
		want bool
	}{
		{sqlscan.MySQL, "SELECT GET_LOCK('a', 0)", false},
		{sqlscan.MySQL, "SELECT 1 FROM t WHERE GET_LOCK('a', 0) = 1", false},
		{sqlscan.MySQL, "DO GET_LOCK('a', 0)", false},
		{sqlscan.MySQL, "do get_lock('a', 0), release_lock('b')", false},
		{sqlscan.MySQL, "CALL p()", true},
		{sqlscan.MySQL, "SELECT GET_LOCK('a', 0); CALL p()", true},
		{sqlscan.MySQL, "DO GET_LOCK('a', 0); EXECUTE s", true},
		{sqlscan.MySQL, "EXPLAIN SELECT * FROM (SELECT GET_LOCK('a', 0)) d", false},
		{sqlscan.MySQL, "SELECT app.GET_LOCK('a', 0)", true},
		{sqlscan.MySQL, "SELECT app.f(GET_LOCK('a', 0))", false},
		{sqlscan.Postgres, "SELECT pg_advisory_lock(1)", false},
		{sqlscan.Postgres, "SELECT pg_catalog.pg_advisory_lock(1)", false},
		{sqlscan.Postgres, "SELECT app.pg_advisory_unlock(1)", true},
		{sqlscan.Postgres, `SELECT "PG_CATALOG".pg_advisory_unlock(1)`, true},
		{sqlscan.Postgres, `SELECT "Pg_advisory_unlock"(1)`, true},
		{sqlscan.Postgres, "DO $$ BEGIN PERFORM pg_advisory_lock(1); END $$", true},
		{sqlscan.Postgres, "EXECUTE s", true},
		{sqlscan.Postgres, `SELECT U&"pg_advisory\005Flock"(1)`, true},
		{sqlscan.Postgres, `SELECT U&"pg_advisory!005Flock" UESCAPE '!' (1)`, true},
		{sqlscan.Postgres, `SELECT U&"a" AS b, (1)`, false},
	} {
		require.Equal(t, tc.want, sqlscan.Hidden(tc.d, tc.sql), tc.sql)
	}
}

func TestHiddenAllocatesNothing(t *testing.T) {
	for _, c := range scanCases {
		require.Zero(t, testing.AllocsPerRun(10, func() { _ = sqlscan.Hidden(c.d, c.sql) }), "%s", c.sql)
	}
}
