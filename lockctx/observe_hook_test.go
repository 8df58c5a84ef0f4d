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

// hook is an observer that is a function.
type hook func(driver.Event)

func (f hook) LockEvent(e driver.Event) { f(e) }

// An observer that uses what a mutex would keep from it would wait for ever if that was held.
func TestAnObserverIsToldWithNoMutexHeld(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
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
		require.Error(t, cutShort(testCtx(t), t, s, sessionID(t, s, db, outer), c))
		for _, want := range []driver.EventKind{driver.EventAcquired, driver.EventAcquired, driver.EventReleased, driver.EventLost} {
			require.Equal(t, want, within(t, told, 2*promptly, "an event").Kind)
		}
		require.ErrorIs(t, outer.Close(), lockctx.ErrLost)
		_ = c.Close()
	})
}

func TestALockThatEndsWhileItsGrantIsToldIsToldLostAfterwards(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
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
