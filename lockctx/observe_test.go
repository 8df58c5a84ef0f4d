package lockctx_test

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// observed runs fn on each server with a *sql.DB whose events are recorded, and afterwards checks that
// the counters agree with the events.
func observed(t *testing.T, fn func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder), opts ...driver.Option) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		key := dbtest.Key(t)
		rec := &recorder{key: key}
		db := open(t, s, append(opts, driver.WithObserver(rec))...)
		fn(t, s, db, key, rec)
		require.NoError(t, db.Close())
		st, err := lockctx.Stats(db)
		require.NoError(t, err)
		requireStats(t, st, rec)
		require.Zero(t, st.LocksHeld)
		require.Zero(t, st.Waiters)
		require.Zero(t, st.SessionsOpen)
	})
}

func TestAnObserverIsToldOfAcquireAndClose(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		start := time.Now()
		lk := acquire(t, db, key)
		took := time.Since(start)
		rec.tells(t, "acquired")
		id := sessionID(t, s, db, lk)
		acquired := rec.only(t, driver.EventAcquired)
		require.Equal(t, driver.Event{Kind: driver.EventAcquired, Key: key, Session: id, Duration: acquired.Duration}, acquired)
		require.Positive(t, acquired.Duration)
		require.LessOrEqual(t, acquired.Duration, took)

		time.Sleep(20 * time.Millisecond) // a while that it is held
		require.NoError(t, lk.Close())
		held := time.Since(start)
		require.NoError(t, lk.Close())
		rec.tells(t, "acquired", "released")
		released := rec.only(t, driver.EventReleased)
		require.Equal(t, driver.Event{Kind: driver.EventReleased, Key: key, Session: id, Duration: released.Duration}, released)
		require.GreaterOrEqual(t, released.Duration, 20*time.Millisecond)
		require.LessOrEqual(t, released.Duration, held)
	})
}

func TestAnObserverIsToldOfRefusals(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		out := newOutsider(t, s)
		require.True(t, out.take(key))
		_, err := lockctx.TryAcquire(testCtx(t), db, key)
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		rec.tells(t, "refused")
		refused := rec.only(t, driver.EventRefused)
		require.Equal(t, err, refused.Err)
		require.Zero(t, refused.Session)

		_, err = lockctx.Acquire(testCtx(t), db, key, lockctx.WithTimeout(time.Second))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		rec.tells(t, "refused", "waited", "refused")
		refused = rec.all()[2]
		require.Equal(t, err, refused.Err)
		require.GreaterOrEqual(t, refused.Duration, 900*time.Millisecond)
		st, err := lockctx.Stats(db)
		require.NoError(t, err)
		require.GreaterOrEqual(t, st.WaitTime, 900*time.Millisecond)

		ctx, cancel := context.WithCancel(testCtx(t))
		waiting := waitFor(ctx, t, db, key)
		rec.tells(t, "refused", "waited", "refused", "waited")
		cancel()
		g := within(t, waiting, promptly, "the end of the wait")
		require.ErrorIs(t, g.err, context.Canceled)
		_, err = lockctx.Acquire(ctx, db, key)
		require.ErrorIs(t, err, context.Canceled)
		rec.tells(t, "refused", "waited", "refused", "waited", "refused", "refused")

		_, err = lockctx.Acquire(testCtx(t), db, "")
		require.Error(t, err)
		_, err = lockctx.AcquireAll(testCtx(t), db, []string{key, ""})
		require.Error(t, err)
		require.Len(t, rec.all(), 6, "invalid arguments are no event")
	})
}

func TestAWaitForASessionIsAWait(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		lk := acquire(t, db, key)
		_, err := lockctx.TryAcquire(testCtx(t), db, key+":2")
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		rec.tells(t, "acquired", "refused:2")
		waiting := waitersOf(testCtx(t), t, db, key+":2", 1, 1)
		rec.tells(t, "acquired", "refused:2", "waited:2")
		require.Equal(t, lockctx.HeldLock{Key: key + ":2", Kind: "session", Waiters: 1}, heldBy(t, db)[1])
		require.NoError(t, lk.Close())
		g := within(t, waiting, promptly, "the grant")
		require.NoError(t, g.err)
		require.NoError(t, g.lk.Close())
		rec.tells(t, "acquired", "refused:2", "waited:2", "released", "acquired:2", "released:2")
	}, driver.WithMaxSessions(1))
}

func TestAnObserverIsToldOfALoss(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		lk := acquire(t, db, key)
		inner, err := lockctx.Acquire(lk.Context(), db, key+":2")
		require.NoError(t, err)
		id := sessionID(t, s, db, lk)
		s.KillSession(t, id)
		requireLost(t, lk)
		requireLost(t, inner)
		rec.tells(t, "acquired", "acquired:2", "lost:2", "lost")
		lost := rec.all()[3]
		require.Equal(t, id, lost.Session)
		require.Positive(t, lost.Duration)
		require.Equal(t, lk.Err(), lost.Err)
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		require.ErrorIs(t, inner.Close(), lockctx.ErrLost)
		rec.tells(t, "acquired", "acquired:2", "lost:2", "lost")
	})
}

func TestAnObserverIsToldOfALossThatAStatementFinds(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		lk := acquire(t, db, key)
		require.Error(t, cutShort(lk.Context(), t, s, sessionID(t, s, db, lk), db))
		requireLost(t, lk)
		rec.tells(t, "acquired", "lost")
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		rec.tells(t, "acquired", "lost")
	})
}

func TestAnObserverIsToldOfAHandOff(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		first := acquire(t, db, key)
		id := sessionID(t, s, db, first)
		waiting := waitFor(testCtx(t), t, db, key)
		rec.tells(t, "acquired", "waited")
		require.NoError(t, first.Close())
		// The grant may be older than a hand-off may be: then the lock went by way of the server.
		second := within(t, waiting, promptly, "the grant to the second")
		require.NoError(t, second.err)
		waiting = waitFor(testCtx(t), t, db, key)
		require.Eventually(t, func() bool { return slices.Equal(rec.story()[len(rec.story())-2:], []string{"acquired", "waited"}) },
			promptly, time.Millisecond)
		require.NoError(t, second.lk.Close())
		third := within(t, waiting, promptly, "the grant to the third")
		require.NoError(t, third.err)
		require.NoError(t, third.lk.Close())

		var story []string
		handedOn := 0
		for _, e := range rec.all() {
			if e.Kind == driver.EventHandedOn {
				handedOn++
				require.Equal(t, "released", story[len(story)-1])
				require.Equal(t, id, e.Session)
				require.Positive(t, e.Duration)
				continue
			}
			story = append(story, string(e.Kind))
		}
		require.Equal(t, []string{"acquired", "waited", "released", "acquired", "waited", "released", "acquired", "released"}, story)
		st, err := lockctx.Stats(db)
		require.NoError(t, err)
		require.EqualValues(t, handedOn, st.HandedOn)
	})
}
