package lockctx_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestC45_InTxThroughATransactionPoolerLosesNoUpdate(t *testing.T) {
	s := ownPgBouncer(t)
	table, key := counter(t, s.Open(t)), dbtest.Key(t)
	var wg sync.WaitGroup
	for range 2 {
		db := open(t, s)
		for range 25 {
			wg.Go(func() {
				for range 20 {
					if err := lockctx.InTx(testCtx(t), db, key, nil, raise(table)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	var n int
	require.NoError(t, s.Open(t).QueryRow("SELECT n FROM "+table).Scan(&n))
	require.Equal(t, 1000, n)
}

func TestC45_InTxThroughATransactionPoolerRefusesStaleSnapshots(t *testing.T) {
	s := ownPgBouncer(t)
	db, key := open(t, s), dbtest.Key(t)
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		err := lockctx.InTx(testCtx(t), db, key, &sql.TxOptions{Isolation: level}, func(context.Context, *sql.Tx) error { return nil })
		require.ErrorIs(t, err, lockctx.ErrUnsupported)
		require.ErrorContains(t, err, "stale")
	}
}

func TestC45_InTxThroughATransactionPoolerReleasesOnErrorAndTimesOut(t *testing.T) {
	s := ownPgBouncer(t)
	db, other, key := open(t, s), open(t, s), dbtest.Key(t)
	table := counter(t, s.Open(t))
	err := lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
		require.NoError(t, raise(table)(ctx, tx))
		for _, db := range []*sql.DB{db, other} {
			start := time.Now()
			err := lockctx.InTx(testCtx(t), db, key, nil, raise(table), lockctx.WithTimeout(200*time.Millisecond))
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
			require.Greater(t, time.Since(start), 180*time.Millisecond)
			require.Less(t, time.Since(start), promptly)
			ctx, cancel := context.WithTimeout(testCtx(t), 100*time.Millisecond)
			err = lockctx.InTx(ctx, db, key, nil, raise(table))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
		_, err := lockctx.Acquire(ctx, db, key+"other")
		require.ErrorIs(t, err, lockctx.ErrUnsupported)
		return context.Canceled
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, lockctx.InTx(testCtx(t), other, key, nil, raise(table)))
	var n int
	require.NoError(t, s.Open(t).QueryRow("SELECT n FROM "+table).Scan(&n))
	require.Equal(t, 1, n)
}
