package lockctx_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// What lockdb itself has prepared on a session goes with what the user has.
func TestDeallocateAllUnderALockCostsNothing(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	db, key := open(t, s), dbtest.Key(t)
	var first int64
	for turn := range 4 {
		lk := acquire(t, db, key)
		if turn%2 == 0 { // each statement that is gone is found missing at its next use
			_, err := db.ExecContext(lk.Context(), "DEALLOCATE ALL")
			require.NoError(t, err)
		}
		nested, err := lockctx.TryAcquire(lk.Context(), db, key+":nested")
		require.NoError(t, err)
		require.NoError(t, nested.Close())
		var id int64 // asked for without a prepared statement, which pgx would miss as well
		require.NoError(t, db.QueryRowContext(lk.Context(), "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&id))
		if turn == 0 {
			first = id
		}
		require.Equal(t, first, id, "the session was thrown away")
		require.NoError(t, lk.Close())
		require.True(t, newOutsider(t, s).try(key))
	}
}
