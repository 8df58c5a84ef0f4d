package lockctx_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// mustNotWait reads the row as one who finds no other's lock on it.
func mustNotWait(t *testing.T, tab *table, id int) {
	t.Helper()
	tx, err := tab.bare.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	var v int
	require.NoError(t, tx.QueryRow(fmt.Sprintf("SELECT v FROM t WHERE id = %d FOR UPDATE NOWAIT", id)).Scan(&v),
		"the lease was released before the transaction was rolled back")
	require.Zero(t, v)
}

func TestI4_CloseOfALeaseWithATransactionOpenRollsItBackBeforeItReleases(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		tab.mustInsert(testCtx(t), tab.bare, 1)
		db, other, rows := open(t, view), open(t, view), newLeaseTable(t, view)
		for way, begin := range beginnings {
			if way == "db.BeginTx under a context that does not end" {
				continue // below
			}
			t.Run(way, func(t *testing.T) {
				for range 5 {
					lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
					tx, err := begin(t, db, lk, nil)
					require.NoError(t, err)
					_, err = tx.Exec("UPDATE t SET v = 1 WHERE id = 1")
					require.NoError(t, err)
					next := waitIn(testCtx(t), t, "(*wait).wait", other, lk.Key(), lockctx.Lease(unrenewed))
					closed := async(lk.Close)
					g := within(t, next, promptly, "the next holder")
					require.NoError(t, g.err)
					mustNotWait(t, tab, 1)
					require.Greater(t, g.lk.Token(), lk.Token())
					err = within(t, closed, promptly, "Close")
					require.ErrorIs(t, err, lockctx.ErrReleased)
					require.ErrorContains(t, err, "transaction")
					require.ErrorContains(t, err, "rolled back")
					require.ErrorContains(t, err, lk.Key())
					requireCommitFailed(t, tx.Commit(), lk, lockctx.ErrReleased)
					require.NoError(t, g.lk.Close())
					require.False(t, rows.isHeld(lk.Key()))
				}
			})
		}
		require.Zero(t, tab.value(1))
	})
}

// Nobody can have database/sql roll it back, so it is the fence that does at last.
func TestI4_ATransactionThatOutlivesItsLeaseCommitsNothing(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		db, other := open(t, view, driver.WithBusyTimeout(time.Second)), open(t, view)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
		tx, err := db.BeginTx(context.WithoutCancel(lk.Context()), nil)
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), tx, 1)
		begun := time.Now()
		err = lk.Close()
		require.ErrorIs(t, err, lockctx.ErrReleased)
		require.ErrorContains(t, err, "still open")
		require.GreaterOrEqual(t, time.Since(begun), time.Second, "it waits")
		next := acquire(t, other, lk.Key(), lockctx.Lease(unrenewed))
		require.ErrorIs(t, tx.Commit(), lockctx.ErrReleased)
		require.Empty(t, tab.ids())
		require.NoError(t, tab.insert(testCtx(t), tab.bare, 1), "it was rolled back")
		require.NoError(t, next.Close())
	})
}

func TestI4_WhenCommitAndCloseOfALeaseMeetWhatCommitSaysIsSoWhenCloseReturns(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		db := open(t, view)
		committed := 0
		for id := range 100 {
			lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
			var tx *sql.Tx
			var err error
			if id%2 == 0 {
				tx, err = db.BeginTx(lk.Context(), nil)
			} else {
				tx, err = lockConn(t, lk).BeginTx(context.Background(), nil)
			}
			require.NoError(t, err)
			tab.mustInsert(testCtx(t), tx, id)
			pause := rand.N(300 * time.Microsecond)
			closed := async(func() error { time.Sleep(pause); return lk.Close() })
			commit := async(func() error { time.Sleep(300*time.Microsecond - pause); return tx.Commit() })
			cerr := within(t, closed, promptly, "Close")
			ids := tab.ids()
			err = within(t, commit, promptly, "Commit")
			if err == nil {
				committed++
				require.Contains(t, ids, id)
				require.NoError(t, cerr)
			} else {
				requireCommitFailed(t, err, lk, lockctx.ErrReleased)
				require.NotContains(t, ids, id)
				require.NotErrorIs(t, err, lockctx.ErrOutcomeUnknown)
				require.ErrorIs(t, cerr, lockctx.ErrReleased)
			}
			require.Equal(t, ids, tab.ids())
		}
		t.Logf("%d of 100 committed", committed)
	})
}

func TestI4_CloseOfALeaseWaitsForACommitThatIsUnderWay(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		relay, other := view.Relay(t), open(t, view)
		db := openDSN(t, relay.DSN())
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), tx, 1)
		relay.Cut()
		commit := asyncIn(t, "(*fence).commit", tx.Commit)
		closed := async(lk.Close)
		require.Eventually(t, func() bool { return lk.Err() != nil }, promptly, time.Millisecond)
		select {
		case err := <-closed:
			t.Fatalf("Close returned while COMMIT was under way: %v", err)
		case err := <-commit:
			t.Fatalf("Commit returned without an answer: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
		_, err = lockctx.TryAcquire(testCtx(t), other, lk.Key(), lockctx.Lease(unrenewed))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		relay.Heal()
		require.NoError(t, within(t, commit, promptly, "Commit"))
		require.NoError(t, within(t, closed, promptly, "Close"))
		require.Equal(t, []int{1}, tab.ids())
		require.NoError(t, acquire(t, other, lk.Key(), lockctx.Lease(unrenewed)).Close())
	})
}

func TestI3_ALongStatementDoesNotCarryATransactionPastTheLossOfItsLease(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		db, rows := open(t, view), newLeaseTable(t, view)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(forLong), lockctx.RenewEvery(20*time.Millisecond))
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), tx, 1)
		slept := asyncIn(t, "(*conn).ExecContext", func() error {
			_, err := tx.ExecContext(lk.Context(), sleepQuery(view, 20))
			return err
		})
		rows.steal(lk.Key())
		err = within(t, slept, promptly, "the end of the statement")
		require.ErrorIs(t, err, lockctx.ErrLost)
		requireLost(t, lk)
		requireCommitFailed(t, tx.Commit(), lk, lockctx.ErrLost)
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		require.Empty(t, tab.ids())
	})
}

// asyncIn is async that returns when f is in the function.
func asyncIn[T any](t *testing.T, function string, f func() T) <-chan T {
	t.Helper()
	label, c := dbtest.Key(t), make(chan T, 1)
	go pprof.Do(context.Background(), pprof.Labels("call", label), func(context.Context) { c <- f() })
	require.Eventually(t, func() bool { return labelledIn(label, function) }, promptly, time.Millisecond)
	return c
}
