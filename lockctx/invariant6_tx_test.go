package lockctx_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// leaveTx leaves a transaction that has written.
func leaveTx(t *testing.T, _ *dbtest.Server, db *sql.DB, tab *table, lk *lockctx.Lock) func() {
	tx, err := db.BeginTx(lk.Context(), nil)
	require.NoError(t, err)
	tab.mustInsert(testCtx(t), tx, 1)
	return func() {
		require.NotContains(t, tab.ids(), 1)
		require.NoError(t, tx.Commit())
		require.Contains(t, tab.ids(), 1)
	}
}

// leaveSnapshot leaves a transaction that has not read yet: no ping may fix what it is going to see.
func leaveSnapshot(t *testing.T, _ *dbtest.Server, db *sql.DB, tab *table, lk *lockctx.Lock) func() {
	tx, err := db.BeginTx(lk.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	require.NoError(t, err)
	return func() {
		tab.mustInsert(testCtx(t), tab.bare, 2)
		var n int
		require.NoError(t, tx.QueryRow("SELECT count(*) FROM t WHERE id = 2").Scan(&n))
		require.Equal(t, 1, n, "the keep-alive took the transaction's snapshot")
		require.NoError(t, tx.Commit())
	}
}

// leaveAborted leaves a transaction in which the server takes nothing but a rollback.
func leaveAborted(t *testing.T, _ *dbtest.Server, db *sql.DB, _ *table, lk *lockctx.Lock) func() {
	tx, err := db.BeginTx(lk.Context(), nil)
	require.NoError(t, err)
	_, err = tx.Exec("SELECT 1 / 0")
	require.Error(t, err)
	return func() {
		_, err := tx.Exec("SELECT 1")
		require.ErrorContains(t, err, "aborted")
		require.Error(t, tx.Commit())
	}
}
