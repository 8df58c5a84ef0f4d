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

// observed runs fn on each server with a *sql.DB whose events are recorded, and afterwards checks that
// the counters agree with the events.
func observed(t *testing.T, fn func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder), opts ...driver.Option) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
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

		_, err = lockctx.Acquire(testCtx(t), db, key, lockctx.WithTimeout(50*time.Millisecond))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		rec.tells(t, "refused", "waited", "refused")
		refused = rec.all()[2]
		require.Equal(t, err, refused.Err)
		require.GreaterOrEqual(t, refused.Duration, 50*time.Millisecond)
		st, err := lockctx.Stats(db)
		require.NoError(t, err)
		require.GreaterOrEqual(t, st.WaitTime, 50*time.Millisecond)

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
		ctx, cancel := context.WithTimeout(lk.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := db.ExecContext(ctx, sleepQuery(s, 5))
		require.Error(t, err)
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
		out.release(key + ":2")
		g := within(t, waiting, promptly, "the nested grant")
		require.NoError(t, g.err)
		before := time.Now()
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, g.lk.Close())
		rec.tells(t, "acquired", "refused:2", "waited:2", "acquired:2", "released:2")
		released := rec.only(t, driver.EventReleased)
		require.Less(t, released.Duration, time.Since(before)+time.Second/4, "held does not include the wait")
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
		_, err = lockctx.AcquireAll(testCtx(t), db, keys, lockctx.WithTimeout(50*time.Millisecond))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		out.free(lk.Key(), promptly) // what it had taken is released in the background
		out.release(last)
		rec.tells(t, "acquired"+first, "released"+first, "waited"+first, "refused"+first)
		require.Equal(t, err, rec.only(t, driver.EventRefused).Err)
	})
}

func TestDBCloseIsToldAsReleasesAndRefusals(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		lk := acquire(t, db, key)
		inner, err := lockctx.Acquire(lk.Context(), db, key+":2")
		require.NoError(t, err)
		waiting := waitFor(testCtx(t), t, db, key)
		require.NoError(t, db.Close())
		g := within(t, waiting, promptly, "the end of the wait")
		require.ErrorIs(t, g.err, lockctx.ErrClosed)
		require.ErrorIs(t, lk.Close(), lockctx.ErrClosed)
		require.Error(t, inner.Err())
		require.ElementsMatch(t, []string{"acquired", "acquired:2", "waited", "released:2", "released", "refused"}, rec.story())
		require.ErrorIs(t, rec.only(t, driver.EventRefused).Err, lockctx.ErrClosed)
		_, err = lockctx.Acquire(testCtx(t), db, key)
		require.ErrorIs(t, err, lockctx.ErrClosed)
		require.Equal(t, "refused", rec.story()[6])
	})
}

func TestAReleaseThatCostATransactionSaysSo(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		lk := acquire(t, db, key)
		inner, err := lockctx.Acquire(lk.Context(), db, key+":2")
		require.NoError(t, err)
		_, err = db.BeginTx(inner.Context(), nil)
		require.NoError(t, err)
		err = inner.Close()
		require.ErrorContains(t, err, "transaction")
		require.Equal(t, err, rec.only(t, driver.EventReleased).Err)
		_, err = db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		err = lk.Close()
		require.ErrorContains(t, err, "transaction")
		require.Equal(t, err, rec.all()[3].Err)
		rec.tells(t, "acquired", "acquired:2", "released:2", "released")
	})
}

func TestAReleaseThatCostAStatementSaysSo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for _, nested := range []bool{false, true} {
			view, key := s.CreateDatabase(t), dbtest.Key(t) // to see what runs
			rec := &recorder{key: key}
			db := open(t, view, driver.WithBusyTimeout(50*time.Millisecond), driver.WithObserver(rec))
			lk := acquire(t, db, key)
			closed, want := lk, []string{"acquired", "released"}
			if nested {
				var err error
				closed, err = lockctx.Acquire(lk.Context(), db, key+":2")
				require.NoError(t, err)
				want = []string{"acquired", "acquired:2", "released:2", "lost"}
			}
			cut := async(func() error {
				_, err := db.ExecContext(closed.Context(), sleepQuery(s, 20))
				return err
			})
			require.Eventually(t, func() bool { return runsNow(t, view, "sleep") }, promptly, time.Millisecond)
			err := closed.Close()
			require.ErrorIs(t, err, lockctx.ErrReleased)
			require.NotErrorIs(t, err, lockctx.ErrLost)
			require.Error(t, within(t, cut, promptly, "the end of the statement"))
			if nested {
				requireLost(t, lk)
			}
			require.Eventually(t, func() bool { return len(rec.all()) == len(want) }, promptly, time.Millisecond)
			require.ElementsMatch(t, want, rec.story())
			require.Equal(t, err, rec.only(t, driver.EventReleased).Err)
		}
	})
}

func TestInTxAndDoAreToldAsAcquiredAndReleased(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		require.NoError(t, lockctx.Do(testCtx(t), db, key, func(context.Context) error { return nil }))
		require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(context.Context, *sql.Tx) error { return nil }))
		rec.tells(t, "acquired", "released", "acquired", "released")
		for _, e := range rec.all() {
			require.NoError(t, e.Err)
		}
	})
}

// hook is an observer that is a function.
type hook func(driver.Event)

func (f hook) LockEvent(e driver.Event) { f(e) }

// An observer that uses what a mutex would keep from it would wait for ever if that was held.
func TestAnObserverIsToldWithNoMutexHeld(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		var db *sql.DB
		var outer *lockctx.Lock
		var c *sql.Conn
		key, told := dbtest.Key(t), make(chan driver.Event, 100)
		db = open(t, s, driver.WithObserver(hook(func(e driver.Event) {
			_, _ = lockctx.Held(context.Background(), db)
			_, _ = lockctx.Stats(db)
			_ = db.Stats()
			ctx, cancel := context.WithTimeout(context.Background(), promptly)
			defer cancel()
			switch {
			case e.Kind == driver.EventLost:
				_ = c.PingContext(ctx) // needs the mutex of the *sql.Conn, and of its connection
			case e.Key == key+":2" && outer.Err() == nil:
				if _, err := db.ExecContext(outer.Context(), "SELECT 1"); err != nil { // needs the session
					t.Error(err)
				}
			}
			if ctx.Err() != nil {
				t.Errorf("%+v was told under a mutex", e)
			}
			told <- e
		})))
		outer = acquire(t, db, key)
		inner, err := lockctx.Acquire(outer.Context(), db, key+":2")
		require.NoError(t, err)
		require.NoError(t, inner.Close())
		c, err = outer.Conn(testCtx(t))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(testCtx(t), 50*time.Millisecond)
		defer cancel()
		_, err = c.ExecContext(ctx, sleepQuery(s, 5))
		require.Error(t, err)
		for _, want := range []driver.EventKind{driver.EventAcquired, driver.EventAcquired, driver.EventReleased, driver.EventLost} {
			require.Equal(t, want, within(t, told, 2*promptly, "an event").Kind)
		}
		require.ErrorIs(t, outer.Close(), lockctx.ErrLost)
		_ = c.Close()
	})
}

func TestALockThatEndsWhileItsGrantIsToldIsToldLostAfterwards(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		var db *sql.DB
		rec := &recorder{key: dbtest.Key(t)}
		db = open(t, s, driver.WithObserver(hook(func(e driver.Event) {
			if e.Kind == driver.EventAcquired {
				s.KillSession(t, e.Session)
				for deadline := time.Now().Add(promptly); len(heldBy(t, db)) > 0 && time.Now().Before(deadline); {
					time.Sleep(time.Millisecond)
				}
			}
			rec.LockEvent(e)
		})))
		lk := acquire(t, db, rec.key)
		rec.tells(t, "acquired", "lost")
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		rec.tells(t, "acquired", "lost")
		requireStats(t, stats(t, db), rec)
	})
}
