package lockctx_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// MariaDB calls it an error there to lock a row that has changed since the snapshot, as a renewal changes the
// lease's. It is the default from 11.6.2 on.
func TestRenewalsDoNotFailFencedCommitsUnderSnapshotIsolation(t *testing.T) {
	view, tab := newTable(t, dbtest.Shared(t, dbtest.MariaDB))
	var known int
	require.NoError(t, tab.bare.QueryRow("SELECT COUNT(*) FROM information_schema.system_variables WHERE variable_name = 'innodb_snapshot_isolation'").Scan(&known))
	dsn := view.DSN()
	if known == 1 { // else there is nothing to it
		dsn = withParam(view, dsn, "innodb_snapshot_isolation=1", "")
	}
	db, rows := openDSN(t, dsn), newLeaseTable(t, view)
	for id, level := range levels {
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(forLong), lockctx.RenewEvery(10*time.Millisecond))
		begin := func() *sql.Tx {
			tx, err := db.BeginTx(lk.Context(), &sql.TxOptions{Isolation: level})
			require.NoError(t, err)
			require.Empty(t, idsLike(t, tx, 1000), "its snapshot is taken")
			rows.awaitRenewal(lk.Key())
			return tx
		}
		if known == 1 && level >= sql.LevelRepeatableRead {
			// What changed since may be too little for the server to tell: a try may pass.
			for told, until := "", time.Now().Add(promptly); told != "1020"; {
				require.True(t, time.Now().Before(until), "a locking read without precautions: %s", told)
				tx := begin()
				_, err := tx.Exec("SELECT 1 FROM lockdb_lease WHERE lease_key = '" + lockName(t, lk.Key()) + "' LOCK IN SHARE MODE")
				require.NoError(t, tx.Rollback())
				told = code(err)
			}
		}
		tx := begin()
		tab.mustInsert(testCtx(t), tx, id)
		require.NoError(t, tx.Commit(), level.String())
		require.Contains(t, tab.ids(), id)

		tx = begin()
		tab.mustInsert(testCtx(t), tx, 100+id)
		require.NoError(t, lockctx.Fence(lk.Context(), tx))
		require.NoError(t, tx.Commit(), level.String())
		require.Contains(t, tab.ids(), 100+id)
		require.NoError(t, lk.Close())

		lk = acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
		tx, err := db.BeginTx(lk.Context(), &sql.TxOptions{Isolation: level})
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), tx, 200+id)
		rows.steal(lk.Key())
		require.ErrorIs(t, tx.Commit(), lockctx.ErrLost)
		require.NotContains(t, tab.ids(), 200+id)
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	}
}
