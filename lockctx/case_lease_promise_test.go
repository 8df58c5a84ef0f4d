package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestI2_ALeaseLeavesNothingOnTheConnectionsOfThePool(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, other, rows := open(t, view), open(t, view), newLeaseTable(t, view)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(forLong), lockctx.RenewEvery(20*time.Millisecond))
		waits := waitIn(testCtx(t), t, "(*wait).wait", other, lk.Key(), lockctx.Lease(unrenewed))
		for id := range 3 {
			require.NoError(t, inTx(lk.Context(), db, func(tx *sql.Tx) error { return tab.insert(lk.Context(), tx, id) }))
		}
		stop := crowd(t, view, db)
		time.Sleep(50 * time.Millisecond)
		kill := "KILL %d"
		if !s.IsMySQL() {
			kill = "SELECT pg_terminate_backend(%d)"
		}
		for id := range stop() {
			_, _ = tab.bare.Exec(fmt.Sprintf(kill, id)) // some the pool has closed
		}
		rows.awaitRenewal(lk.Key())
		require.NoError(t, lk.Err())
		begun, stood := time.Now(), watchStandstill(t)
		require.NoError(t, lk.Close())
		g := within(t, waits, promptly, "the next holder")
		require.NoError(t, g.err)
		require.Less(t, g.at.Sub(begun), time.Second+stood.time(), "the release woke him")
		require.NoError(t, g.lk.Close())
	})
}

func TestI5_TheLossOfALeaseIsToldWithTheNextRenewal(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, _ *table) {
		db, rows := open(t, view), newLeaseTable(t, view)
		for _, steal := range []func(key string){
			func(key string) { rows.steal(key) },
			func(string) { rows.exec("DELETE FROM lockdb_lease", "DELETE FROM lockdb_lease") },
		} {
			lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(time.Minute), lockctx.RenewEvery(100*time.Millisecond))
			derived, cancel := context.WithTimeout(lk.Context(), time.Hour)
			end := endOf(derived)
			steal(lk.Key())
			within(t, end, promptly, "the end of the context")
			for _, ctx := range []context.Context{lk.Context(), derived} {
				require.ErrorIs(t, ctx.Err(), lockctx.ErrLost)
				require.ErrorIs(t, context.Cause(ctx), lockctx.ErrLost)
				require.ErrorIs(t, ctx.Err(), context.Canceled)
			}
			require.ErrorIs(t, db.QueryRowContext(derived, "SELECT 1").Scan(new(int)), lockctx.ErrLost)
			cancel()
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		}
	})
}

// A busy machine can be late to end the context, but is not each time.
func TestI5_ALeaseThatCannotBeRenewedIsLostBeforeItExpires(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, _ *table) {
		db, rows := open(t, view), newLeaseTable(t, view)
		early := time.Duration(0)
		for try := 0; early <= 0 && try < 5; try++ {
			lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(2*time.Second))
			end := endOf(lk.Context())
			tx, err := rows.bare.Begin()
			require.NoError(t, err)
			_, err = tx.Exec("SELECT 1 FROM lockdb_lease WHERE lease_key = '" + lockName(t, lk.Key()) + "' FOR UPDATE")
			require.NoError(t, err)
			expires := time.Now()
			row, _ := rows.look(lk.Key())
			expires = expires.Add(row.left)
			early = expires.Sub(within(t, end, promptly, "the end of the context"))
			require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
			require.NoError(t, tx.Rollback())
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		}
		require.Positive(t, early)
	})
}

func TestI7_ALeaseNeedsNoSlotOfThePool(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		db, rows := open(t, view), newLeaseTable(t, view)
		db.SetMaxOpenConns(1)
		busy, err := db.Conn(testCtx(t))
		require.NoError(t, err)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(forLong), lockctx.RenewEvery(20*time.Millisecond))
		_, err = lockctx.TryAcquire(testCtx(t), db, lk.Key(), lockctx.Lease(unrenewed))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		all, err := lockctx.AcquireAll(testCtx(t), db, []string{dbtest.Key(t), dbtest.Key(t)}, lockctx.Lease(unrenewed))
		require.NoError(t, err)
		require.NoError(t, lockctx.Do(testCtx(t), db, dbtest.Key(t), func(ctx context.Context) error {
			lk, _ := lockctx.FromContext(ctx)
			return inTx(ctx, lk.DB(), func(tx *sql.Tx) error { return tab.insert(ctx, tx, 1) })
		}, lockctx.Lease(unrenewed)))
		require.NoError(t, lockctx.InTx(testCtx(t), db, dbtest.Key(t), nil, func(ctx context.Context, tx *sql.Tx) error {
			return tab.insert(ctx, tx, 2)
		}, lockctx.Lease(unrenewed)))
		require.NoError(t, inTx(lk.Context(), lk.DB(), func(tx *sql.Tx) error { return tab.insert(testCtx(t), tx, 3) }))
		rows.awaitRenewal(lk.Key())
		require.NoError(t, all.Close())
		require.NoError(t, lk.Close())
		require.Equal(t, []int{1, 2, 3}, tab.ids())
		require.NoError(t, busy.Close())
	})
}

func TestI7_TwentyHoldersOfLeasesShareOneSlotOfThePool(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		tab.mustInsert(testCtx(t), tab.bare, 1)
		db, key := open(t, view), dbtest.Key(t)
		db.SetMaxOpenConns(1)
		together(t, 20, func(int) error {
			lk, err := lockctx.Acquire(testCtx(t), db, key, lockctx.Lease(10*time.Second))
			if err != nil {
				return err
			}
			return errors.Join(inTx(lk.Context(), db, func(tx *sql.Tx) error { return increment(lk.Context(), tx, 1) }), lk.Close())
		})
		require.Equal(t, 20, tab.value(1))
	})
}
