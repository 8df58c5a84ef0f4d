package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// C09's program, and what becomes of it: read, write, release, commit in one
// order or another. However it is written, no update is lost.
func TestC09_NoOrderOfReleaseAndCommitLosesAnUpdate(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		tab.mustInsert(context.Background(), tab.bare, 1)
		db, key := open(t, view), dbtest.Key(t)
		orders := []func(context.Context) error{
			func(ctx context.Context) error {
				return lockctx.InTx(ctx, db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
					return increment(ctx, tx, 1)
				})
			},
			func(ctx context.Context) error { // commits in Do
				return lockctx.Do(ctx, db, key, func(ctx context.Context) error {
					return inTx(ctx, db, func(tx *sql.Tx) error { return increment(ctx, tx, 1) })
				})
			},
			func(ctx context.Context) error { // releases before it commits
				lk, err := lockctx.Acquire(ctx, db, key)
				if err != nil {
					return err
				}
				return inTx(lk.Context(), db, func(tx *sql.Tx) error {
					return errors.Join(increment(lk.Context(), tx, 1), lk.Close())
				})
			},
			func(ctx context.Context) error { // releases before it commits, and looks at no error
				lk, err := lockctx.Acquire(ctx, db, key)
				if err != nil {
					return err
				}
				tx, err := db.BeginTx(lk.Context(), nil)
				if err != nil {
					return err
				}
				_ = increment(context.Background(), tx, 1)
				_ = lk.Close()
				return tx.Commit()
			},
			func(ctx context.Context) error { // in statements without a transaction
				return lockctx.Do(ctx, db, key, func(ctx context.Context) error { return increment(ctx, db, 1) })
			},
		}
		var committed [5]atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 25 {
					i := rand.N(len(orders))
					if orders[i](testCtx(t)) == nil {
						committed[i].Add(1)
					}
				}
			})
		}
		wg.Wait()
		sum := 0
		for i := range orders {
			sum += int(committed[i].Load())
		}
		require.Equal(t, sum, tab.value(1), "updates were lost: %v", &committed)
		for _, i := range []int{0, 1, 4} {
			require.NotZero(t, committed[i].Load(), "the right order %d", i)
		}
		for _, i := range []int{2, 3} {
			require.Zero(t, committed[i].Load(), "the wrong order %d committed", i)
		}
	})
}

func TestC09_CloseWithATransactionOpenRollsItBackFirstAndSaysSo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, out, key := open(t, view), newOutsider(t, view), dbtest.Key(t)
		begin := map[string]func(*testing.T, *lockctx.Lock) (*sql.Tx, error){
			"the pool's DB": func(_ *testing.T, lk *lockctx.Lock) (*sql.Tx, error) { return db.BeginTx(lk.Context(), nil) },
			"the lock's DB": func(_ *testing.T, lk *lockctx.Lock) (*sql.Tx, error) { return lk.DB().BeginTx(lk.Context(), nil) },
			"the lock's Conn": func(t *testing.T, lk *lockctx.Lock) (*sql.Tx, error) {
				c, err := lk.Conn(testCtx(t))
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, c.Close()) })
				return c.BeginTx(context.Background(), nil)
			},
		}
		for name, begin := range begin {
			t.Run(name, func(t *testing.T) {
				lk := acquire(t, db, key)
				tx, err := begin(t, lk)
				require.NoError(t, err)
				tab.mustInsert(context.Background(), tx, 1)

				err = lk.Close()
				require.ErrorIs(t, err, lockctx.ErrReleased)
				require.ErrorContains(t, err, "transaction")
				require.ErrorContains(t, err, "rolled back")
				require.ErrorContains(t, err, key)
				require.True(t, out.try(key), "released nevertheless")
				requireCommitFailed(t, tx.Commit(), lk, lockctx.ErrReleased)
				require.Empty(t, tab.ids())
			})
		}
		require.NoError(t, acquire(t, db, key).Close())
	})
}

// A cancel that has returned has happened: no commit comes after it.
func TestACommitAfterTheCancelOfTheLocksContextCommitsNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db := open(t, view)
		for id := range 20 {
			ctx, cancel := context.WithCancel(context.Background())
			err := lockctx.InTx(ctx, db, dbtest.Key(t), nil, func(ctx context.Context, tx *sql.Tx) error {
				err := tab.insert(context.Background(), tx, id)
				cancel()
				return err
			})
			require.Error(t, err)
		}
		require.Empty(t, tab.ids())
	})
}

// inTx commits what fn does.
func inTx(ctx context.Context, db *sql.DB, fn func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return fmt.Errorf("rolled back: %w", errors.Join(err, tx.Rollback()))
	}
	return tx.Commit()
}

// Where nothing commits by itself, every statement may leave a transaction.
func TestC09_WhatAStatementLeftUncommittedIsRolledBackBeforeTheRelease(t *testing.T) {
	for _, k := range []dbtest.Kind{dbtest.MySQL, dbtest.MariaDB} {
		t.Run(string(k), func(t *testing.T) {
			view, tab := newTable(t, dbtest.Shared(t, k))
			db, key := openDSN(t, withParam(view, view.DSN(), "autocommit=0", "")), dbtest.Key(t)
			tab.mustInsert(context.Background(), tab.bare, 1)
			lk := acquire(t, db, key)
			require.NoError(t, increment(lk.Context(), db, 1))
			require.NoError(t, lk.Close())
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			_, err := tab.bare.ExecContext(ctx, "UPDATE t SET v = 7 WHERE id = 1")
			require.NoError(t, err)
			lk = acquire(t, db, key)
			var v int
			require.NoError(t, db.QueryRowContext(lk.Context(), "SELECT v FROM t WHERE id = 1").Scan(&v))
			require.Equal(t, 7, v, "the session saw an old snapshot, or its own change")
			require.NoError(t, increment(lk.Context(), db, 1))
			_, err = db.ExecContext(lk.Context(), "COMMIT")
			require.NoError(t, err)
			require.NoError(t, lk.Close())
			require.Equal(t, 8, tab.value(1))
		})
	}
}
