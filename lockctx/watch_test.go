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

// heldBy is Held of db.
func heldBy(t testing.TB, db *sql.DB) []lockctx.HeldLock {
	t.Helper()
	held, err := lockctx.Held(testCtx(t), db)
	require.NoError(t, err)
	return held
}

func stats(t testing.TB, db *sql.DB) lockctx.Statistics {
	t.Helper()
	st, err := lockctx.Stats(db)
	require.NoError(t, err)
	return st
}

// waitersOf starts n calls of Acquire for key and returns when all of them wait, so that Stats has want
// waiters.
func waitersOf(ctx context.Context, t testing.TB, db *sql.DB, key string, n, want int) <-chan grant {
	t.Helper()
	granted := make(chan grant, n)
	for range n {
		go func() {
			lk, err := lockctx.Acquire(ctx, db, key)
			granted <- grant{lk: lk, err: err}
		}()
	}
	require.Eventually(t, func() bool { return stats(t, db).Waiters == want }, promptly, time.Millisecond)
	return granted
}

func TestHeldAndStatsShowWhoHoldsAndWhoWaits(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		require.Empty(t, heldBy(t, db))
		require.Equal(t, lockctx.Statistics{}, stats(t, db))

		before := time.Now()
		lk := acquire(t, db, key+":a")
		after := time.Now()
		id := sessionID(t, s, db, lk)
		require.True(t, out.take(key+":z"))
		mine := waitersOf(testCtx(t), t, db, key+":a", 20, 20)
		ctx, cancel := context.WithCancel(testCtx(t))
		others := waitersOf(ctx, t, db, key+":z", 3, 23)

		held := heldBy(t, db)
		require.Len(t, held, 2)
		require.WithinRange(t, held[0].Since, before, after)
		held[0].Since = time.Time{}
		require.Equal(t, lockctx.HeldLock{Key: key + ":a", Kind: "session", Session: id, Waiters: 20}, held[0])
		require.Eventually(t, func() bool { return heldBy(t, db)[1].HeldBy != "" }, promptly, time.Millisecond,
			"the server is asked who holds the lock")
		elsewhere := heldBy(t, db)[1]
		elsewhere.HeldBy = ""
		require.Equal(t, lockctx.HeldLock{Key: key + ":z", Kind: "session", Waiters: 3}, elsewhere)

		st := stats(t, db)
		require.Equal(t, lockctx.Statistics{SessionsOpen: 2, LocksHeld: 1, Waiters: 23, SessionsDialled: 2, Acquired: 1, Waited: 23}, st)

		cancel()
		for range 3 {
			require.ErrorIs(t, within(t, others, promptly, "the end of a wait").err, context.Canceled)
		}
		st = stats(t, db)
		require.EqualValues(t, 3, st.Refused)
		require.Equal(t, 20, st.Waiters)
		require.Positive(t, st.WaitTime)

		for i := range 20 {
			require.NoError(t, lk.Close())
			g := within(t, mine, promptly, "a grant")
			require.NoError(t, g.err)
			lk = g.lk
			st = stats(t, db)
			require.Equal(t, 19-i, st.Waiters)
			require.Equal(t, 1, st.LocksHeld)
			held = heldBy(t, db)
			require.Equal(t, key+":a", held[0].Key)
			require.Equal(t, 19-i, held[0].Waiters)
			require.False(t, held[0].Since.IsZero())
		}
		require.NoError(t, lk.Close())
		out.release(key + ":z")
		require.Eventually(t, func() bool { return len(heldBy(t, db)) == 0 }, promptly, time.Millisecond)
		st = stats(t, db)
		require.EqualValues(t, 21, st.Acquired)
		require.EqualValues(t, 21, st.Released)
		require.Zero(t, st.LocksHeld)
		require.Zero(t, st.Waiters)
		require.Positive(t, st.HandedOn)
		require.Eventually(t, func() bool { st := stats(t, db); return st.SessionsIdle == st.SessionsOpen }, promptly, time.Millisecond)
	})
}

func TestHeldShowsEveryKeyOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		all, err := lockctx.AcquireAll(testCtx(t), db, []string{key + ":a", key + ":b"})
		require.NoError(t, err)
		again, err := lockctx.Acquire(all.Context(), db, key+":b")
		require.NoError(t, err)
		_, err = lockctx.Acquire(again.Context(), db, key+":c")
		require.NoError(t, err)
		require.True(t, out.take(key+":d"))
		waiting := waitersOf(again.Context(), t, db, key+":d", 1, 1)

		var keys []string
		for _, h := range heldBy(t, db) {
			keys = append(keys, h.Key)
			if h.Key == key+":d" {
				require.Equal(t, lockctx.HeldLock{Key: key + ":d", Kind: "session", Waiters: 1}, h)
			} else {
				require.False(t, h.Since.IsZero())
				require.NotZero(t, h.Session)
				require.Zero(t, h.Waiters)
			}
		}
		require.Equal(t, []string{key + ":a", key + ":b", key + ":c", key + ":d"}, keys)
		require.Equal(t, 3, stats(t, db).LocksHeld, "AcquireAll, the re-entry and the nested lock")

		out.release(key + ":d")
		require.NoError(t, within(t, waiting, promptly, "the nested grant").err)
		require.Len(t, heldBy(t, db), 4)
		require.NoError(t, all.Close())
		require.Empty(t, heldBy(t, db))
		require.Zero(t, stats(t, db).LocksHeld)
	})
}

func TestHeldForgetsALostLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s), dbtest.Key(t)
		lk := acquire(t, db, key)
		s.KillSession(t, sessionID(t, s, db, lk))
		requireLost(t, lk)
		require.Eventually(t, func() bool { return len(heldBy(t, db)) == 0 }, promptly, time.Millisecond)
		require.Eventually(t, func() bool { return stats(t, db).Lost == 1 }, promptly, time.Millisecond)
		require.Eventually(t, func() bool { return stats(t, db).SessionsOpen == 0 }, promptly, time.Millisecond)
		require.Zero(t, stats(t, db).LocksHeld)
	})
}

func TestHeldAndStatsNeedADBOfLockdb(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	_, err := lockctx.Held(testCtx(t), s.Open(t))
	require.ErrorContains(t, err, "sql.Open")
	_, err = lockctx.Stats(s.Open(t))
	require.ErrorContains(t, err, "sql.Open")
}
