package dialect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/dialect"
)

const (
	instrument = "UPDATE performance_schema.setup_instruments SET ENABLED='%s' WHERE NAME='wait/lock/metadata/sql/mdl'"
	consumer   = "UPDATE performance_schema.setup_consumers SET ENABLED='%s' WHERE NAME='global_instrumentation'"
)

// requireHeld asks for the locks of a session that has taken the named ones and no others.
func requireHeld(t testing.TB, q *querier, locks []string, all bool, n int64, known bool, what string) {
	t.Helper()
	got, gotKnown, err := dialect.MySQL.RawHeld(t.Context(), q, locks, all)
	require.NoError(t, err, what)
	require.Equal(t, n, got, what)
	require.Equal(t, known, gotKnown, what)
}

func execOn(t testing.TB, q *querier, query string) {
	t.Helper()
	_, err := q.ExecContext(t.Context(), query)
	require.NoError(t, err, query)
}

func TestMySQLsSilenceOnLocksIsNotTakenForTheirAbsence(t *testing.T) {
	s := dbtest.Private(t, dbtest.MySQL)
	q, admin := session(t, s.Driver(), s.DSN()), session(t, s.Driver(), s.DSN())
	none, take, drop := []string(nil), "DO GET_LOCK('a', 0)", "DO RELEASE_ALL_LOCKS()"
	requireHeld(t, q, none, false, 0, true, "nothing")
	execOn(t, q, take)
	requireHeld(t, q, none, false, 1, true, "a lock under a name that nobody told")
	execOn(t, q, drop)
	for _, toggle := range []string{instrument, consumer} {
		execOn(t, admin, fmt.Sprintf(toggle, "NO"))
		execOn(t, q, take)
		requireHeld(t, q, none, false, 0, false, "off, no name told: "+toggle)
		requireHeld(t, q, []string{"b"}, true, 0, true, "off, another name told: "+toggle)
		requireHeld(t, q, []string{"a"}, true, 1, true, "off, its name told: "+toggle)
		execOn(t, admin, fmt.Sprintf(toggle, "YES"))
		requireHeld(t, q, []string{"a", "b"}, false, 1, true, "on since, its name told: "+toggle)
		requireHeld(t, q, []string{strings.Repeat("x", 65), "a"}, false, 1, true, "beside what is no name: "+toggle)
		execOn(t, q, drop)
		requireHeld(t, q, []string{"a"}, false, 0, true, "on again: "+toggle)
	}
}

func TestMySQLsLocksWithoutRoomToShowThemAreNotTakenForAbsent(t *testing.T) {
	s := dbtest.Private(t, dbtest.MySQL, "performance-schema-max-metadata-locks=50")
	q, other := session(t, s.Driver(), s.DSN()), session(t, s.Driver(), s.DSN())
	for i := range 60 {
		execOn(t, other, fmt.Sprintf("DO GET_LOCK('other %d', 0)", i))
	}
	execOn(t, q, "DO GET_LOCK('a', 0)")
	execOn(t, other, "DO RELEASE_ALL_LOCKS()") // and there is room again
	requireHeld(t, q, nil, false, 0, false, "no name told")
	requireHeld(t, q, []string{"a"}, true, 1, true, "its name told")
	requireHeld(t, q, []string{"b"}, true, 0, true, "another name told")

	s = dbtest.Private(t, dbtest.MySQL, "performance-schema-max-thread-instances=30") // less than the server's own
	q = session(t, s.Driver(), s.DSN())
	execOn(t, q, "DO GET_LOCK('a', 0)")
	requireHeld(t, q, nil, false, 0, false, "a session that is not shown")
	requireHeld(t, q, []string{"a"}, true, 1, true, "a session that is not shown, its name told")
}
