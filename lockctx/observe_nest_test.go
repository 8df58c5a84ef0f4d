package lockctx_test

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

func TestNestedLocksGiveAnAcquiredAndAReleasedEach(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		outer := acquire(t, db, key)
		again, err := lockctx.Acquire(outer.Context(), db, key)
		require.NoError(t, err)
		other, err := lockctx.Acquire(again.Context(), db, key+":2")
		require.NoError(t, err)
		rec.tells(t, "acquired", "acquired", "acquired:2")
		require.NoError(t, other.Close())
		rec.tells(t, "acquired", "acquired", "acquired:2", "released:2")
		other, err = lockctx.Acquire(again.Context(), db, key+":3")
		require.NoError(t, err)
		require.NoError(t, again.Close(), "the re-entry, with the other lock under it")
		rec.tells(t, "acquired", "acquired", "acquired:2", "released:2", "acquired:3", "released:3", "released")
		_, err = lockctx.Acquire(outer.Context(), db, key+":4")
		require.NoError(t, err)
		require.NoError(t, outer.Close())
		require.ErrorIs(t, other.Close(), lockctx.ErrReleased)
		rec.tells(t, "acquired", "acquired", "acquired:2", "released:2", "acquired:3", "released:3", "released",
			"acquired:4", "released:4", "released")
	})
}

func TestANestedWaitIsToldOnce(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		out := newOutsider(t, s)
		outer := acquire(t, db, key)
		require.True(t, out.take(key+":2"))
		_, err := lockctx.TryAcquire(outer.Context(), db, key+":2")
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		ctx, cancel := context.WithCancel(outer.Context())
		defer cancel()
		waiting := async(func() grant {
			lk, err := lockctx.Acquire(ctx, db, key+":2")
			return grant{lk: lk, err: err}
		})
		rec.tells(t, "acquired", "refused:2", "waited:2")
		time.Sleep(200 * time.Millisecond) // a while that it waits
		before := time.Now()
		out.release(key + ":2")
		g := within(t, waiting, promptly, "the nested grant")
		require.NoError(t, g.err)
		require.NoError(t, g.lk.Close())
		held := time.Since(before)
		rec.tells(t, "acquired", "refused:2", "waited:2", "acquired:2", "released:2")
		released := rec.only(t, driver.EventReleased)
		require.LessOrEqual(t, released.Duration, held, "held does not include the wait")
		require.NoError(t, outer.Close())
	})
}

func TestAcquireAllIsOneAcquiredAndOneReleasedWithAllKeys(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		out, keys := newOutsider(t, s), []string{key + ":b", key + ":a", key + ":c"}
		lk, err := lockctx.AcquireAll(testCtx(t), db, keys)
		require.NoError(t, err)
		require.NoError(t, lk.Close())
		first := lk.Key()[len(key):]
		rec.tells(t, "acquired"+first, "released"+first)
		for _, e := range rec.all() {
			require.Equal(t, lk.Keys(), e.Keys)
		}

		last := lk.Keys()[2]
		require.True(t, out.take(last))
		_, err = lockctx.AcquireAll(testCtx(t), db, keys, lockctx.WithTimeout(time.Second))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		out.free(lk.Key(), promptly) // what it had taken is released in the background
		out.release(last)
		rec.tells(t, "acquired"+first, "released"+first, "waited"+first, "refused"+first)
		require.Equal(t, err, rec.only(t, driver.EventRefused).Err)
	})
}
