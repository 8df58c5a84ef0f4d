package conn_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// On a *sql.Conn a program can begin a transaction while another is open, and
// database/sql does not say which of them a statement is of.

func TestOnAConnTwoTransactionsWithoutALockGoOnAsOnTheBareDriver(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		run := func(db *sql.DB) (seen []string) {
			ctx := testCtx(t)
			c, err := db.Conn(ctx)
			require.NoError(t, err)
			tx1, err := c.BeginTx(ctx, nil)
			require.NoError(t, err)
			tx2, err := c.BeginTx(ctx, nil)
			seen = append(seen, kind(err))
			require.NoError(t, err)
			_, err = tx1.Exec("SELECT 1")
			seen = append(seen, kind(err), kind(tx1.Commit()))
			_, err = tx2.Exec("SELECT 1")
			return append(seen, kind(err), kind(tx2.Rollback()), kind(c.Close()), stats(db))
		}
		db := open(t, s)
		require.Equal(t, run(s.Open(t)), run(db))
		acquire(t, db)
		require.Equal(t, run(s.Open(t)), run(db), "with a lock elsewhere")
	})
}

func TestOnAConnNoTransactionBeginsBesideOneUnderALock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		ctx := testCtx(t)
		db := open(t, s, driver.WithBusyTimeout(100*time.Millisecond))
		lk := acquire(t, db)
		id := lockSession(t, s, db, lk)
		c, err := db.Conn(ctx)
		require.NoError(t, err)
		defer c.Close()
		tx, err := c.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		for _, ctx := range []context.Context{lk.Context(), ctx} {
			_, err = c.BeginTx(ctx, nil)
			require.ErrorIs(t, err, lockctx.ErrBusy)
			require.ErrorContains(t, err, "a transaction is open on this *sql.Conn already")
		}
		require.Equal(t, id, sessionID(t, s, tx))
		_, err = db.ExecContext(lk.Context(), "SELECT 1")
		require.ErrorIs(t, err, lockctx.ErrBusy, "the transaction still occupies the session")
		require.NoError(t, tx.Commit())
		_, err = db.ExecContext(lk.Context(), "SELECT 1")
		require.NoError(t, err)
		require.NotEqual(t, id, sessionID(t, s, c))
		require.NoError(t, lk.Err())
	})
}

func TestOnAConnNoTransactionBeginsUnderALockBesideOneOutside(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		ctx := testCtx(t)
		db := open(t, s)
		lk := acquire(t, db)
		id := lockSession(t, s, db, lk)
		c, err := db.Conn(ctx)
		require.NoError(t, err)
		defer c.Close()
		tx, err := c.BeginTx(ctx, nil)
		require.NoError(t, err)
		outside := sessionID(t, s, tx)
		require.NotEqual(t, id, outside)
		_, err = c.BeginTx(lk.Context(), nil)
		require.ErrorIs(t, err, lockctx.ErrBusy, "it could not be on the lock's session")
		require.ErrorContains(t, err, "outside the lock")
		require.Equal(t, outside, sessionID(t, s, tx))
		require.NoError(t, tx.Commit())
		under, err := c.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, id, sessionID(t, s, under))
		require.NoError(t, under.Commit())
	})
}
