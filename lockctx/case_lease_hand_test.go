package lockctx_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// eachHand runs fn for every isolation level with a *sql.DB of the bare driver, and one of lockdb's, in whose
// transactions Fence is called.
func eachHand(t *testing.T, fn func(t *testing.T, view *dbtest.Server, tab *table, db, hand *sql.DB, opts *sql.TxOptions, id int)) {
	t.Helper()
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		db, id := open(t, view), 0
		for name, hand := range map[string]*sql.DB{"the driver's": view.Open(t), "lockdb's": db, "another of lockdb's": open(t, view)} {
			t.Run(name, func(t *testing.T) {
				for _, level := range levels {
					id++
					fn(t, view, tab, db, hand, &sql.TxOptions{Isolation: level}, id)
				}
			})
		}
	})
}

func TestFenceByHandLetsATransactionCommitWhileTheLeaseIsHeld(t *testing.T) {
	eachHand(t, func(t *testing.T, view *dbtest.Server, tab *table, db, hand *sql.DB, opts *sql.TxOptions, id int) {
		rows := newLeaseTable(t, view)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(forLong), lockctx.RenewEvery(10*time.Millisecond))
		tx, err := hand.BeginTx(testCtx(t), opts)
		require.NoError(t, err)
		require.Empty(t, idsLike(t, tx, id), "its snapshot is taken")
		rows.awaitRenewal(lk.Key())
		tab.mustInsert(testCtx(t), tx, id)
		require.NoError(t, lockctx.Fence(lk.Context(), tx))
		require.NoError(t, tx.Commit())
		require.Contains(t, tab.ids(), id)
		require.NoError(t, lk.Close())
	})
}

func TestFenceByHandSaysErrLostOnceTheLeaseHasMovedOn(t *testing.T) {
	eachHand(t, func(t *testing.T, view *dbtest.Server, tab *table, db, hand *sql.DB, opts *sql.TxOptions, id int) {
		rows := newLeaseTable(t, view)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
		tx, err := hand.BeginTx(testCtx(t), opts)
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), tx, id)
		rows.steal(lk.Key())
		err = lockctx.Fence(lk.Context(), tx)
		require.ErrorIs(t, err, lockctx.ErrLost)
		require.ErrorContains(t, err, lk.Key())
		require.NoError(t, tx.Rollback())
		require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
		tx, err = hand.BeginTx(testCtx(t), opts)
		require.NoError(t, err)
		require.ErrorIs(t, lockctx.Fence(lk.Context(), tx), lockctx.ErrLost, "without a look at the row")
		require.NoError(t, tx.Rollback())
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		require.NotContains(t, tab.ids(), id)
	})
}

func TestFenceByHandKeepsTheLeaseUntilTheTransactionEnds(t *testing.T) {
	eachHand(t, func(t *testing.T, view *dbtest.Server, tab *table, db, hand *sql.DB, opts *sql.TxOptions, id int) {
		rows := newLeaseTable(t, view)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
		tx, err := hand.BeginTx(testCtx(t), opts)
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), tx, id)
		require.NoError(t, lockctx.Fence(lk.Context(), tx))
		stolen := async(func() int64 { return rows.steal(lk.Key()) })
		select {
		case <-stolen:
			t.Fatal("the lease moved on between Fence and Commit")
		case <-time.After(30 * time.Millisecond):
		}
		require.NoError(t, tx.Commit())
		within(t, stolen, promptly, "the steal")
		require.Contains(t, tab.ids(), id)
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}

func TestFenceByHandChecksEveryLeaseAroundIt(t *testing.T) {
	eachHand(t, func(t *testing.T, view *dbtest.Server, tab *table, db, hand *sql.DB, opts *sql.TxOptions, id int) {
		rows := newLeaseTable(t, view)
		outer := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
		inner, err := lockctx.Acquire(outer.Context(), db, dbtest.Key(t), lockctx.Lease(unrenewed))
		require.NoError(t, err)
		fence := func() error {
			tx, err := hand.BeginTx(testCtx(t), opts)
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			return lockctx.Fence(inner.Context(), tx)
		}
		require.NoError(t, fence())
		rows.steal(outer.Key())
		require.ErrorIs(t, fence(), lockctx.ErrLost)
		require.ErrorIs(t, outer.Err(), lockctx.ErrLost)
		require.NoError(t, inner.Close())
		require.ErrorIs(t, outer.Close(), lockctx.ErrLost)
	})
}

func TestFenceByHandSaysWhatIsWrong(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, _ *table) {
		db, bare := open(t, view), view.Open(t)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
		fence := func(ctx context.Context, db *sql.DB, opts *sql.TxOptions) error {
			tx, err := db.BeginTx(testCtx(t), opts)
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			return lockctx.Fence(ctx, tx)
		}
		err := fence(testCtx(t), bare, nil)
		require.ErrorIs(t, err, lockctx.ErrUnsupported)
		require.ErrorContains(t, err, "no lease in ctx")
		if view.Kind() != dbtest.PgBouncer {
			session := acquire(t, db, dbtest.Key(t))
			require.ErrorIs(t, fence(session.Context(), bare, nil), lockctx.ErrUnsupported, "a session lock")
			require.NoError(t, session.Close())
		}
		if err := fence(lk.Context(), bare, &sql.TxOptions{ReadOnly: true}); view.IsMySQL() {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, lockctx.ErrUnsupported)
			require.ErrorContains(t, err, "read-only")
			require.Equal(t, "25006", code(err))
		}
		elsewhere := dbtest.Shared(t, view.Kind()).CreateDatabase(t)
		if err := fence(lk.Context(), elsewhere.Open(t), nil); view.IsMySQL() {
			require.NoError(t, err, "the same server's other databases see the table")
		} else {
			require.Equal(t, "42P01", code(err))
			require.NotErrorIs(t, err, lockctx.ErrLost)
		}
		tx, err := bare.Begin()
		require.NoError(t, err)
		require.NoError(t, tx.Rollback())
		require.ErrorIs(t, lockctx.Fence(lk.Context(), tx), sql.ErrTxDone)
		require.NoError(t, lk.Err(), "none of these is a loss")
		require.NoError(t, lk.Close())
		require.ErrorIs(t, fence(lk.Context(), bare, nil), lockctx.ErrReleased)
	})
}
