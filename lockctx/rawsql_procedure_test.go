package lockctx_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

// procedures makes two: one that has nothing to do with locks, and one that takes
// key's and leaves it.
func procedures(t testing.TB, s *dbtest.Server, key string) (view *dbtest.Server, idle, takes string) {
	t.Helper()
	view = s.CreateDatabase(t)
	bare := view.Open(t)
	texts := []string{
		"CREATE PROCEDURE idle() LANGUAGE plpgsql AS $$ BEGIN PERFORM 1; END $$",
		"CREATE PROCEDURE takes() LANGUAGE plpgsql AS $$ BEGIN PERFORM " + rawSQLFor(t, s, key).take[len("SELECT "):] + "; END $$",
	}
	if s.IsMySQL() {
		texts = []string{"CREATE PROCEDURE idle() DO 1", "CREATE PROCEDURE takes() DO " + rawSQLFor(t, s, key).take[len("SELECT "):]}
	}
	for _, text := range texts {
		_, err := bare.Exec(text)
		require.NoError(t, err)
	}
	return view, "CALL idle()", "CALL takes()"
}

func TestACallOfAProcedureDoesNotCostTheLockOfWhoCallsIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		key := dbtest.Key(t)
		view, idle, _ := procedures(t, s, key+":2")
		db, out := open(t, view), newOutsider(t, view)
		text := rawSQLFor(t, view, key)
		for range 3 {
			require.True(t, yes(t, db, text.take))
			for range 3 {
				require.NoError(t, second(db.ExecContext(testCtx(t), idle)))
				require.False(t, out.try(key), "the call released it")
			}
			require.True(t, yes(t, db, text.release))
			require.True(t, out.try(key))
		}
	})
}

func TestACallThatTakesNothingCostsNoConnection(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, idle, _ := procedures(t, s, dbtest.Key(t))
		rec := &recorder{}
		db := open(t, view, driver.WithObserver(rec))
		db.SetMaxOpenConns(1)
		id := askID(testCtx(t), t, view, db)
		for range 5 {
			require.NoError(t, second(db.ExecContext(testCtx(t), idle)))
			require.Equal(t, id, askID(testCtx(t), t, view, db))
		}
		require.Empty(t, rec.story())
	})
}

// Most programs' users may not read performance_schema.
func TestWithoutThePrivilegeToLookNamesAreAskedFor(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		r, out, key := newRestricted(t, s), newOutsider(t, s), dbtest.Key(t)
		if s.IsMySQL() {
			r.run("CREATE PROCEDURE idle() DO 1")
			r.grant("EXECUTE", "*")
		} else {
			r.run("CREATE PROCEDURE idle() LANGUAGE plpgsql AS $$ BEGIN PERFORM 1; END $$")
		}
		db := r.open()
		text, prepared := rawSQLFor(t, s, key), preparedFor(t, s, key)
		for range 3 {
			require.NoError(t, byExec(prepared.take, prepared.args...)(testCtx(t), db))
			require.NoError(t, byExec("CALL idle()")(testCtx(t), db))
			require.Len(t, heldBy(t, db), 1)
			if s.IsMySQL() {
				require.False(t, out.try(key))
			}
			require.NoError(t, byExec(text.release)(testCtx(t), db))
			require.Empty(t, heldBy(t, db))
			require.True(t, out.try(key))
		}
	})
}
