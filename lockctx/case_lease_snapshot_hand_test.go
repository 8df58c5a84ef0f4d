package lockctx_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// PostgreSQL shows such a transaction the row as it was before, with another token. MySQL and MariaDB read it as it is.
func TestFenceByHandInATransactionOlderThanTheLeaseDoesNotCostTheLease(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		db, key := open(t, view), dbtest.Key(t)
		require.NoError(t, acquire(t, db, key, lockctx.Lease(lasting)).Close())
		tx, err := view.Open(t).BeginTx(testCtx(t), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		require.NoError(t, err)
		var rows int
		require.NoError(t, tx.QueryRow("SELECT COUNT(*) FROM lockdb_lease").Scan(&rows), "its snapshot is taken")
		lk := acquire(t, db, key, lockctx.Lease(lasting))
		err = lockctx.Fence(lk.Context(), tx)
		if view.IsMySQL() {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, lockctx.ErrUnsupported)
			require.NotErrorIs(t, err, lockctx.ErrLost)
		}
		require.NoError(t, tx.Rollback())
		require.NoError(t, lk.Err())
		require.NoError(t, lk.Close())
	})
}
