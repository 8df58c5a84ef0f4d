package lockctx_test

import (
	"context"
	"database/sql"
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

func TestAcquireAllTakesAllOrNone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		keys := []string{key + "c", key + "a", key + "b", key + "a"}
		lk, err := lockctx.AcquireAll(testCtx(t), db, keys)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{key + "a", key + "b", key + "c"}, lk.Keys())
		for _, k := range lk.Keys() {
			require.False(t, out.try(k), k)
		}
		require.NoError(t, lk.Close())
		for _, k := range keys {
			require.True(t, out.try(k), k)
		}

		for _, taken := range keys[:3] {
			require.True(t, out.take(taken))
			_, err = lockctx.AcquireAll(testCtx(t), db, keys, lockctx.WithTimeout(50*time.Millisecond))
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
			out.release(taken)
			for _, k := range keys {
				out.free(k, promptly)
			}
		}
		_, err = lockctx.AcquireAll(testCtx(t), db, nil)
		require.Error(t, err)
	})
}

func TestAcquireAllInAnyOrderDoesNotDeadlock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		dbs, key := []string{s.DSN(), s.DSN()}, dbtest.Key(t)
		var inside [4]atomic.Int32
		var wg sync.WaitGroup
		for _, dsn := range dbs {
			db := openDSN(t, dsn)
			for range 6 {
				wg.Go(func() {
					for range 10 {
						picked := rand.Perm(4)[:2]
						lk, err := lockctx.AcquireAll(testCtx(t), db, []string{fmt.Sprint(key, picked[0]), fmt.Sprint(key, picked[1])})
						if err != nil {
							t.Error(err)
							return
						}
						for _, i := range picked {
							if inside[i].Add(1) != 1 {
								t.Errorf("two hold %d", i)
							}
						}
						for _, i := range picked {
							inside[i].Add(-1)
						}
						if err := lk.Close(); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
	})
}

// Two who take two locks one after the other, in opposite orders: the server
// tells one of them, whose first lock stays his, and the other goes on when
// that is released.
func TestC12_ADeadlockAmongLocksIsToldAndLeavesEarlierLocksHeld(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		key, out := dbtest.Key(t), newOutsider(t, s)
		dbA, dbB := open(t, s), open(t, s)
		a, b := acquire(t, dbA, key+"a"), acquire(t, dbB, key+"b")
		type result struct {
			lk  *lockctx.Lock
			err error
		}
		nest := func(db *sql.DB, lk *lockctx.Lock, key string) <-chan result {
			done := make(chan result, 1)
			go func() {
				ctx, cancel := context.WithTimeout(lk.Context(), 20*time.Second)
				defer cancel()
				inner, err := lockctx.Acquire(ctx, db, key)
				done <- result{inner, err}
			}()
			return done
		}
		fromA, fromB := nest(dbA, a, key+"b"), nest(dbB, b, key+"a")
		victim, victimKey, other := a, key+"a", fromB
		var got result
		select {
		case got = <-fromA:
		case got = <-fromB:
			victim, victimKey, other = b, key+"b", fromA
		}
		require.ErrorIs(t, got.err, lockctx.ErrDeadlock)
		require.NoError(t, victim.Err())
		require.False(t, out.try(victimKey))
		require.NoError(t, victim.Close())
		got = <-other
		require.NoError(t, got.err)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}
