package lockctx_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// eachFencing runs fn on every server, and on PostgreSQL behind a pooler, each in a database of the test's own.
func eachFencing(t *testing.T, fn func(t *testing.T, view *dbtest.Server, tab *table)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		fn(t, view, tab)
	})
	t.Run("pgbouncer", func(t *testing.T) {
		t.Parallel()
		view, tab := newTable(t, ownPgBouncer(t))
		fn(t, view, tab)
	})
}

// levels are the isolation levels that all servers have.
var levels = []sql.IsolationLevel{
	sql.LevelDefault, sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable,
}

// beginning is a way to begin a transaction under a lease.
type beginning func(t *testing.T, db *sql.DB, lk *lockctx.Lock, opts *sql.TxOptions) (*sql.Tx, error)

// beginnings are all ways that there are.
var beginnings = map[string]beginning{
	"db.BeginTx": func(_ *testing.T, db *sql.DB, lk *lockctx.Lock, opts *sql.TxOptions) (*sql.Tx, error) {
		return db.BeginTx(lk.Context(), opts)
	},
	"db.BeginTx under a derived context": func(t *testing.T, db *sql.DB, lk *lockctx.Lock, opts *sql.TxOptions) (*sql.Tx, error) {
		ctx, cancel := context.WithTimeout(lk.Context(), time.Minute)
		t.Cleanup(cancel)
		return db.BeginTx(ctx, opts)
	},
	"db.BeginTx under a context that does not end": func(_ *testing.T, db *sql.DB, lk *lockctx.Lock, opts *sql.TxOptions) (*sql.Tx, error) {
		return db.BeginTx(context.WithoutCancel(lk.Context()), opts)
	},
	"a Conn of the pool": func(t *testing.T, db *sql.DB, lk *lockctx.Lock, opts *sql.TxOptions) (*sql.Tx, error) {
		return connOf(t, db, context.Background()).BeginTx(lk.Context(), opts)
	},
	"a Conn of the pool, got under the lease": func(t *testing.T, db *sql.DB, lk *lockctx.Lock, opts *sql.TxOptions) (*sql.Tx, error) {
		return connOf(t, db, lk.Context()).BeginTx(lk.Context(), opts)
	},
	"the lock's DB": func(_ *testing.T, _ *sql.DB, lk *lockctx.Lock, opts *sql.TxOptions) (*sql.Tx, error) {
		return lk.DB().BeginTx(lk.Context(), opts)
	},
	"the lock's Conn": func(t *testing.T, _ *sql.DB, lk *lockctx.Lock, opts *sql.TxOptions) (*sql.Tx, error) {
		return lockConn(t, lk).BeginTx(context.Background(), opts)
	},
	"the lock's Conn under its context": func(t *testing.T, _ *sql.DB, lk *lockctx.Lock, opts *sql.TxOptions) (*sql.Tx, error) {
		return lockConn(t, lk).BeginTx(lk.Context(), opts)
	},
}

func connOf(t *testing.T, db *sql.DB, ctx context.Context) *sql.Conn {
	t.Helper()
	c, err := db.Conn(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, within(t, async(c.Close), promptly, "Close, without a transaction")) })
	return c
}

func lockConn(t *testing.T, lk *lockctx.Lock) *sql.Conn {
	t.Helper()
	c, err := lk.Conn(testCtx(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, within(t, async(c.Close), promptly, "Close, without a transaction")) })
	return c
}

// eachBeginning runs fn for every way to begin and every isolation level.
func eachBeginning(t *testing.T, fn func(t *testing.T, begin beginning, opts *sql.TxOptions, id int)) {
	t.Helper()
	id := 0
	for way, begin := range beginnings {
		t.Run(way, func(t *testing.T) {
			for _, level := range levels {
				id++
				t.Run(level.String(), func(t *testing.T) { fn(t, begin, &sql.TxOptions{Isolation: level}, id) })
			}
		})
	}
}

// unrenewed is the TTL of a lease that is not renewed as long as a test lasts, so that nothing but the fence can
// find that it has moved on.
const unrenewed = time.Hour

func TestI3_ATransactionUnderALeaseThatWasStolenCommitsNothing(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		db, rows := open(t, view), newLeaseTable(t, view)
		eachBeginning(t, func(t *testing.T, begin beginning, opts *sql.TxOptions, id int) {
			lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
			tx, err := begin(t, db, lk, opts)
			require.NoError(t, err)
			tab.mustInsert(testCtx(t), tx, id)
			rows.steal(lk.Key())
			require.NoError(t, lk.Err(), "nobody has told")

			err = tx.Commit()
			require.ErrorIs(t, err, lockctx.ErrLost)
			require.NotErrorIs(t, err, lockctx.ErrOutcomeUnknown)
			require.ErrorContains(t, err, "rolled back")
			require.ErrorContains(t, err, lk.Key())
			require.NotContains(t, tab.ids(), id)
			requireLost(t, lk)
			_, err = db.BeginTx(lk.Context(), opts)
			require.ErrorIs(t, err, lockctx.ErrLost)
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
			require.True(t, rows.isHeld(lk.Key()), "the thief's lease is not touched")
			require.NoError(t, tab.insert(testCtx(t), tab.bare, id), "its row locks are gone")
		})
	})
}

func TestI3_ATransactionUnderALeaseCommitsWhateverRenewalsItMeets(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		db, rows := open(t, view), newLeaseTable(t, view)
		eachBeginning(t, func(t *testing.T, begin beginning, opts *sql.TxOptions, id int) {
			lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(forLong), lockctx.RenewEvery(10*time.Millisecond))
			tx, err := begin(t, db, lk, opts)
			require.NoError(t, err)
			require.Empty(t, idsLike(t, tx, id), "its snapshot is taken")
			rows.awaitRenewal(lk.Key())
			tab.mustInsert(testCtx(t), tx, id)
			rows.awaitRenewal(lk.Key())
			require.NoError(t, tx.Commit())
			require.Contains(t, tab.ids(), id)
			require.NoError(t, lk.Close())
			require.False(t, rows.isHeld(lk.Key()))
		})
	})
}

// idsLike reads the row id in tx.
func idsLike(t *testing.T, tx *sql.Tx, id int) (ids []int) {
	t.Helper()
	rows, err := tx.Query(fmt.Sprintf("SELECT id FROM t WHERE id = %d", id))
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id int
		require.NoError(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(t, rows.Err())
	return ids
}

func TestI3_InTxUnderALeaseThatWasStolenCommitsNothing(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		db, rows := open(t, view), newLeaseTable(t, view)
		for id, level := range levels {
			opts, key := &sql.TxOptions{Isolation: level}, dbtest.Key(t)
			write := func(then func()) error {
				return lockctx.InTx(testCtx(t), db, key, opts, func(ctx context.Context, tx *sql.Tx) error {
					defer then()
					return tab.insert(ctx, tx, id)
				}, lockctx.Lease(unrenewed), lockctx.WithTimeout(0))
			}
			err := write(func() { rows.steal(key) })
			require.ErrorIs(t, err, lockctx.ErrLost)
			require.NotContains(t, tab.ids(), id)
			require.ErrorIs(t, write(func() {}), lockctx.ErrNotAcquired, "the thief has it")

			key = dbtest.Key(t)
			require.NoError(t, write(func() {}))
			require.Contains(t, tab.ids(), id)
			require.False(t, rows.isHeld(key))
		}
	})
}

// Whatever it has read stays true; and on PostgreSQL it may not lock a row.
func TestAReadOnlyTransactionUnderALeaseSkipsTheFence(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, _ *table) {
		db, rows := open(t, view), newLeaseTable(t, view)
		eachBeginning(t, func(t *testing.T, begin beginning, opts *sql.TxOptions, id int) {
			lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
			opts.ReadOnly = true
			tx, err := begin(t, db, lk, opts)
			require.NoError(t, err)
			require.Empty(t, idsLike(t, tx, id))
			rows.steal(lk.Key())
			require.NoError(t, tx.Commit())
			require.NoError(t, lk.Err())
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost, "at its release it was seen")
		})
	})
}

func TestARolledBackTransactionUnderALeaseLeavesTheLeaseHeld(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		db := open(t, view)
		eachBeginning(t, func(t *testing.T, begin beginning, opts *sql.TxOptions, id int) {
			lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
			tx, err := begin(t, db, lk, opts)
			require.NoError(t, err)
			tab.mustInsert(testCtx(t), tx, id)
			require.NoError(t, tx.Rollback())
			require.ErrorIs(t, tx.Commit(), sql.ErrTxDone)
			tx, err = begin(t, db, lk, opts)
			require.NoError(t, err)
			require.NoError(t, tx.Commit(), "there is nothing in it")
			require.NoError(t, lk.Close())
			require.NotContains(t, tab.ids(), id)
		})
	})
}
