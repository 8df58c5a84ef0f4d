package lockctx_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// In a transaction now() of PostgreSQL is when it began, and a snapshot shows rows as they were then.
func TestC58_TheTimeOfALeaseDoesNotStandStillInATransaction(t *testing.T) {
	const ttl = 2 * time.Second
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		db, other, rows, key := open(t, view), open(t, view), newLeaseTable(t, view), dbtest.Key(t)
		db.SetMaxOpenConns(1)
		require.NoError(t, acquire(t, other, key, lockctx.Lease(ttl)).Close())
		tx, err := db.BeginTx(testCtx(t), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), tx, 1)
		_ = askID(testCtx(t), t, view, tx)
		time.Sleep(ttl * 6 / 5)

		lk := acquire(t, db, key, lockctx.Lease(ttl))
		row, found := rows.look(key)
		require.True(t, found)
		require.Positive(t, row.left, "the lease was given a time that has passed")
		_, err = lockctx.TryAcquire(testCtx(t), other, key, lockctx.Lease(ttl))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		require.NoError(t, tx.Rollback())
		require.True(t, rows.isHeld(key), "it was part of the transaction")
		require.NoError(t, lk.Close())

		// And a lease ends while a transaction is open that began when it was held.
		held := acquire(t, other, key, lockctx.Lease(ttl))
		tx, err = db.BeginTx(testCtx(t), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), tx, 1)
		rows.exec("UPDATE lockdb_lease SET expires_us = expires_us - 2000000", "UPDATE lockdb_lease SET expires_at = expires_at - interval '2 s'")
		lk, err = lockctx.TryAcquire(testCtx(t), db, key, lockctx.Lease(ttl))
		require.NoError(t, err)
		require.Greater(t, lk.Token(), held.Token())
		require.NoError(t, tx.Commit())
		requireLost(t, held)
		require.ErrorIs(t, held.Close(), lockctx.ErrLost)
		require.NoError(t, lk.Close())
	})
}
