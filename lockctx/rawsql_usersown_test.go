package lockctx_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// usersLock makes a function of the user's with the name of one that takes a lock. It
// does what the expression does, whatever lock it is called for, and says yes.
func usersLock(t testing.TB, view *dbtest.Server, does string) (call string) {
	t.Helper()
	bare := view.Open(t)
	if view.IsMySQL() {
		var schema string
		require.NoError(t, bare.QueryRow("SELECT DATABASE()").Scan(&schema))
		_, err := bare.Exec("CREATE FUNCTION get_lock(name VARCHAR(64), seconds INT) RETURNS INT NO SQL RETURN IF(" + does + " IS NULL, 0, 1)")
		require.NoError(t, err)
		return "SELECT " + schema + ".get_lock('job', 0)"
	}
	_, err := bare.Exec("CREATE SCHEMA mine; CREATE FUNCTION mine.pg_try_advisory_lock(bigint) RETURNS bool LANGUAGE sql AS 'SELECT " + does + " IS NOT NULL'")
	require.NoError(t, err)
	return "SELECT mine.pg_try_advisory_lock(1)"
}

func TestAUsersFunctionThatIsNamedLikeALockFunctionIsNotTakenForIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		call := usersLock(t, view, "1")
		db := open(t, view)
		db.SetMaxOpenConns(1)
		for range 3 {
			require.True(t, yes(t, db, call))
			require.Empty(t, heldRaw(t, db))
		}
		require.Equal(t, 1, db.Stats().OpenConnections)
	})
}

func TestALockThatAUsersFunctionTakesUnderAnotherNameDoesNotStayInThePool(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		key := dbtest.Key(t)
		view := s.CreateDatabase(t)
		text := rawSQLFor(t, view, key)
		call := usersLock(t, view, text.take[len("SELECT "):])
		db, out := open(t, view), newOutsider(t, view)
		require.True(t, yes(t, db, call))
		parked := len(heldRaw(t, db)) > 0
		if parked {
			require.False(t, out.try(key))
			require.True(t, yes(t, db, text.release), "its goroutine has it")
		}
		out.free(key, promptly)
	})
}
