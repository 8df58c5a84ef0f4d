package lockctx_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestC13_ASelfDeadlockWithoutTheContextEndsWithTheDeadlineAndSaysSo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s), dbtest.Key(t)
		lk := acquire(t, db, key)
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		_, err := lockctx.Acquire(ctx, db, key) // a helper that was not given lk.Context()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "held by this process for")
		require.ErrorContains(t, err, strconv.Quote(key))

		inner, err := lockctx.Acquire(lk.Context(), db, key) // one that was
		require.NoError(t, err)
		require.NoError(t, inner.Close())
		require.NoError(t, lk.Close())
	})
}

func TestC17_WaitersDoNotFillThePoolAndTheHolderWorksAndReleases(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, key := open(t, s), dbtest.Key(t)
		db.SetMaxOpenConns(4)
		holder := acquire(t, db, key)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				lk, err := lockctx.Acquire(testCtx(t), db, key)
				if err == nil {
					err = lk.Close()
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		require.Eventually(t, func() bool {
			held, err := lockctx.Held(testCtx(t), db)
			return err == nil && len(held) == 1 && held[0].Waiters == 10
		}, 10*time.Second, time.Millisecond)
		require.Zero(t, db.Stats().InUse)
		_, err := db.Exec("SELECT 1")
		require.NoError(t, err)
		_, err = db.ExecContext(holder.Context(), "SELECT 1")
		require.NoError(t, err)
		require.NoError(t, holder.Close())
		wg.Wait()
	})
}

func TestC18_ADeadlineIsHonouredAndTheErrorSaysWhoHoldsTheLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		require.True(t, out.take(key))
		defer out.release(key)
		query := "SELECT CONNECTION_ID()"
		if !s.IsMySQL() {
			query = "SELECT pg_backend_pid()"
		}
		var id int64
		require.NoError(t, out.conn.QueryRowContext(testCtx(t), query).Scan(&id))

		for _, wait := range []func() error{
			func() error {
				ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
				defer cancel()
				_, err := lockctx.Acquire(ctx, db, key)
				return err
			},
			func() error { _, err := lockctx.TryAcquire(testCtx(t), db, key); return err },
			func() error {
				_, err := lockctx.Acquire(testCtx(t), db, key, lockctx.WithTimeout(300*time.Millisecond))
				return err
			},
		} {
			requireSoon(t, time.Second, func() time.Duration {
				start := time.Now()
				err := wait()
				took := time.Since(start)
				require.Error(t, err)
				if took < time.Second { // else there may have been no time to look for the holder
					require.ErrorContains(t, err, strconv.FormatInt(id, 10), "the holder's id")
					require.ErrorContains(t, err, "@", "the holder's user and host")
				}
				return took
			})
		}
	})
}

// The ghost of C27 is a server thread that goes on waiting for a client that has
// given up: it would get the lock when it comes free, and refuse it to others.
func TestC27_AWaitThatWasGivenUpLeavesNoGhost(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		for range 20 {
			// A slice that was about to begin may still do so, and is seen through.
			require.Eventually(t, func() bool { return out.take(key) }, gone, 2*time.Millisecond)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			_, err := lockctx.Acquire(ctx, db, key)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			out.release(key)
			out.free(key, gone) // the slice is seen through, and given back
		}
		require.LessOrEqual(t, stats(t, db).SessionsDialled, int64(5), "giving up costs no connection")
	})
}

// Two strings whose 32-bit hashes are equal are two locks.
func TestC34_AShortHashThatCollidesIsNoCollision(t *testing.T) {
	seen := make(map[uint32]string)
	var a, b string
	for i := 0; a == ""; i++ {
		key := fmt.Sprint("collide ", i)
		sum := sha256.Sum256([]byte(key))
		short := binary.BigEndian.Uint32(sum[:])
		if other, ok := seen[short]; ok {
			a, b = other, key
		}
		seen[short] = key
	}
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s.CreateDatabase(t))
		lk := acquire(t, db, a)
		other, err := lockctx.TryAcquire(testCtx(t), db, b)
		require.NoError(t, err)
		_, err = lockctx.TryAcquire(testCtx(t), db, a)
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		want := lockName(t, a)
		if !s.IsMySQL() {
			want = strconv.FormatInt(lockID(t, a), 10)
		}
		require.ErrorContains(t, err, want, "what the server knows the lock by")
		require.NoError(t, other.Close())
		require.NoError(t, lk.Close())

		both, err := lockctx.AcquireAll(testCtx(t), db, []string{a, b})
		require.NoError(t, err)
		require.NoError(t, both.Close())
	})
}

func TestC39_OverlappingAcquiresOfOneKeyGrantOne(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for _, slots := range []int{1, 4} {
			db, key := open(t, s), dbtest.Key(t)
			db.SetMaxOpenConns(slots)
			var inside atomic.Int32
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					for range 10 {
						lk, err := lockctx.TryAcquire(testCtx(t), db, key)
						if err != nil {
							if !errors.Is(err, lockctx.ErrNotAcquired) {
								t.Error(err)
							}
							continue
						}
						if inside.Add(1) > 1 {
							t.Error("two are inside")
						}
						inside.Add(-1)
						if err := lk.Close(); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
		}
	})
}
