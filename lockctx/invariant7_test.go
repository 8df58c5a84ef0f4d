package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// together runs f on n goroutines and returns when all have ended well.
func together(t testing.TB, n int, f func(i int) error) {
	t.Helper()
	errs := make(chan error, n)
	for i := range n {
		go func() {
			err := f(i)
			if err != nil {
				err = fmt.Errorf("goroutine %d: %w", i, err)
			}
			errs <- err
		}()
	}
	for range n {
		require.NoError(t, within(t, errs, 3*promptly, "the end of a goroutine"))
	}
}

// transfer takes the lock, begins a transaction under it on a slot of the pool, and does its work there.
func transfer(ctx context.Context, db *sql.DB, key string, row int) error {
	lk, err := lockctx.Acquire(ctx, db, key)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(lk.Context(), nil)
	if err != nil {
		return errors.Join(err, lk.Close())
	}
	if err = increment(ctx, tx, row); err == nil {
		err = tx.Commit()
	}
	return errors.Join(err, lk.Close())
}

func TestI7_TwentyHoldersShareOneSlotOfThePool(t *testing.T) {
	for name, keys := range map[string]int{"each with a key of his own": 20, "all of one key": 1} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				view, tab := newTable(t, s)
				for row := range keys {
					tab.mustInsert(testCtx(t), tab.bare, row)
				}
				db, key := open(t, view), dbtest.Key(t)
				db.SetMaxOpenConns(1)
				together(t, 20, func(i int) error {
					return transfer(testCtx(t), db, fmt.Sprint(key, i%keys), i%keys)
				})
				for row := range keys {
					require.Equal(t, 20/keys, tab.value(row))
				}
			})
		})
	}
}

func TestI7_TwentyHoldersAtOnceShareOneSlotOfThePool(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, key := open(t, view), dbtest.Key(t)
		db.SetMaxOpenConns(1)
		var allHold sync.WaitGroup
		allHold.Add(20)
		together(t, 20, func(i int) error {
			lk, err := lockctx.Acquire(testCtx(t), db, fmt.Sprint(key, i))
			allHold.Done()
			if err != nil {
				return err
			}
			allHold.Wait()
			tx, err := db.BeginTx(lk.Context(), nil)
			if err == nil {
				err = errors.Join(tab.insert(testCtx(t), tx, i), tx.Commit())
			}
			return errors.Join(err, lk.Close())
		})
		require.Len(t, tab.ids(), 20)
	})
}

// fullPool is a db all of whose slots are taken by transactions that wait for a lock.
type fullPool struct {
	db      *sql.DB
	tab     *table
	key     string
	waiters []<-chan grant
	txs     []*sql.Tx
}

func newFullPool(t *testing.T, s *dbtest.Server, slots int) (pool *fullPool, holder *lockctx.Lock) {
	t.Helper()
	view, tab := newTable(t, s)
	pool = &fullPool{db: open(t, view), tab: tab, key: dbtest.Key(t)}
	pool.db.SetMaxOpenConns(slots)
	holder = acquire(t, pool.db, pool.key)
	for range slots {
		tx, err := pool.db.BeginTx(testCtx(t), nil)
		require.NoError(t, err)
		pool.txs = append(pool.txs, tx)
		pool.waiters = append(pool.waiters, waitFor(testCtx(t), t, pool.db, pool.key))
	}
	return pool, holder
}

// drain has those who waited go on, each in his transaction.
func (p *fullPool) drain(t *testing.T) {
	t.Helper()
	for i, waiter := range p.waiters {
		next := within(t, waiter, promptly, "the lock, for one who waits with a slot")
		require.NoError(t, next.err)
		require.NoError(t, p.txs[i].Commit())
		require.NoError(t, next.lk.Close())
	}
}

func TestI7_TheHolderGoesOnWhileAllSlotsAreHeldByThoseWhoWaitForHisLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for _, slots := range []int{1, 5} {
			pool, lk := newFullPool(t, s, slots)
			ctx, tab, db := lk.Context(), pool.tab, lk.DB()
			tab.mustInsert(ctx, db, 1)
			var n int
			require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n))
			require.Equal(t, 1, n)
			stmt, err := db.PrepareContext(ctx, "INSERT INTO t VALUES (2, 0)")
			require.NoError(t, err)
			_, err = stmt.ExecContext(ctx)
			require.NoError(t, err)
			require.NoError(t, stmt.Close())
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			tab.mustInsert(ctx, tx, 3)
			require.NoError(t, tx.Commit())
			conn, err := lk.Conn(testCtx(t))
			require.NoError(t, err)
			tab.mustInsert(ctx, conn, 4)
			require.NoError(t, conn.Close())
			require.NoError(t, db.PingContext(ctx))

			require.Equal(t, slots, pool.db.Stats().InUse)
			require.NoError(t, lk.Close())
			pool.drain(t)
			require.Equal(t, []int{1, 2, 3, 4}, tab.ids())
		}
	})
}

func TestI7_AcquireDoInTxAndCloseNeedNoSlot(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		pool, lk := newFullPool(t, s, 3)
		ctx, db, tab, other := testCtx(t), pool.db, pool.tab, dbtest.Key(t)
		second, err := lockctx.TryAcquire(ctx, db, other)
		require.NoError(t, err)
		require.NoError(t, second.Close())
		require.NoError(t, lockctx.Do(ctx, db, other, func(ctx context.Context) error {
			return tab.insert(ctx, mustLock(t, ctx).DB(), 1)
		}))
		require.NoError(t, lockctx.InTx(ctx, db, other, nil, func(ctx context.Context, tx *sql.Tx) error {
			return tab.insert(ctx, tx, 2)
		}))
		require.NoError(t, lockctx.InTx(lk.Context(), db, other, nil, func(ctx context.Context, tx *sql.Tx) error {
			return tab.insert(ctx, tx, 3)
		}), "under the lock that all wait for")
		require.NoError(t, lk.Close())
		pool.drain(t)
		require.Equal(t, []int{1, 2, 3}, tab.ids())
	})
}

func mustLock(t testing.TB, ctx context.Context) *lockctx.Lock { //nolint:revive // t first, as everywhere here
	t.Helper()
	lk, ok := lockctx.FromContext(ctx)
	require.True(t, ok)
	return lk
}

func TestI7_InTxOfTheLockThatAllSlotsWaitForGoesThrough(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, key := open(t, view), dbtest.Key(t)
		db.SetMaxOpenConns(4)
		pool := &fullPool{db: db, tab: tab, key: key}
		require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
			for range 4 {
				waiting, err := db.BeginTx(testCtx(t), nil)
				require.NoError(t, err)
				pool.txs = append(pool.txs, waiting)
				pool.waiters = append(pool.waiters, waitFor(testCtx(t), t, db, key))
			}
			return tab.insert(ctx, tx, 1)
		}))
		pool.drain(t)
		require.Equal(t, []int{1}, tab.ids())
	})
}

func TestI7_AHolderWhoBeginsOnThePoolWaitsForASlotAsEveryoneDoes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db := open(t, view)
		db.SetMaxOpenConns(1)
		lk := acquire(t, db, dbtest.Key(t))
		busy, err := db.BeginTx(testCtx(t), nil)
		require.NoError(t, err)
		inserted := async(func() error { return tab.insert(lk.Context(), db, 1) })
		require.Eventually(t, func() bool { return db.Stats().WaitCount == 1 }, promptly, promptly/10000)
		require.NoError(t, busy.Commit())
		require.NoError(t, within(t, inserted, promptly, "the statement that waited for a slot"))
		require.NoError(t, lk.Close())
	})
}
