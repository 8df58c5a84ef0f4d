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

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestReleasedIsToldBeforeTheNextAcquired(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					if err := lockctx.Do(testCtx(t), db, key, func(context.Context) error { return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		held, handedOn := false, false
		for i, e := range rec.all() {
			switch e.Kind {
			case driver.EventAcquired:
				require.False(t, held, "event %d: acquired twice", i)
				held, handedOn = true, false
			case driver.EventReleased:
				require.True(t, held, "event %d: released twice", i)
				held = false
			case driver.EventHandedOn:
				require.False(t, held || handedOn, "event %d: handed on once, after the release", i)
				handedOn = true
			}
		}
		require.Equal(t, 800, int(stats(t, db).Released))
	})
}

// tally checks at every event that no more locks ended than were acquired.
type tally struct {
	recorder
	t    testing.TB
	open map[string]int // guarded by mu: locks acquired and not ended, by key
}

func (y *tally) LockEvent(e driver.Event) {
	y.recorder.LockEvent(e)
	y.mu.Lock()
	defer y.mu.Unlock()
	switch e.Kind {
	case driver.EventAcquired:
		y.open[e.Key]++
	case driver.EventReleased, driver.EventLost:
		y.open[e.Key]--
		if y.open[e.Key] < 0 {
			y.t.Errorf("%s before acquired: %+v", e.Kind, e)
		}
	}
}

// storm is goroutines that do with locks whatever can be done, at random.
type storm struct {
	t          *testing.T
	s          *dbtest.Server
	db, admin  *sql.DB
	key        string
	calls, got atomic.Int64
}

// call asks for one lock, or for two at once.
func (o *storm) call(ctx context.Context) *lockctx.Lock {
	o.calls.Add(1)
	var lk *lockctx.Lock
	var err error
	timeout := lockctx.WithTimeout(time.Duration(rand.IntN(40)) * time.Millisecond)
	if rand.IntN(4) == 0 {
		lk, err = lockctx.AcquireAll(ctx, o.db, []string{fmt.Sprint(o.key, rand.IntN(3)), fmt.Sprint(o.key, 3+rand.IntN(2))}, timeout)
	} else {
		lk, err = lockctx.Acquire(ctx, o.db, fmt.Sprint(o.key, rand.IntN(5)), timeout)
	}
	if err != nil {
		return nil
	}
	o.got.Add(1)
	return lk
}

// turn takes a lock, and one nested in it, and closes both, having done this or that.
func (o *storm) turn(kill bool) {
	ctx, cancel := context.WithTimeout(testCtx(o.t), time.Duration(rand.IntN(60))*time.Millisecond)
	defer cancel()
	lk := o.call(ctx)
	if lk == nil {
		return
	}
	inner := o.call(lk.Context())
	var id int64
	switch n := rand.IntN(5); {
	case n == 0:
		_, _ = o.db.BeginTx(lk.Context(), nil)
	case n == 1 && kill:
		if o.db.QueryRowContext(lk.Context(), idQuery(o.s)).Scan(&id) == nil {
			kill := "KILL %d"
			if !o.s.IsMySQL() {
				kill = "SELECT pg_terminate_backend(%d)"
			}
			_, _ = o.admin.Exec(fmt.Sprintf(kill, id)) // which may have ended by itself
		}
	case n == 2 && inner != nil:
		_ = inner.Close()
	case n == 3:
		cancel()
	}
	_ = lk.Close()
	if inner != nil {
		_ = inner.Close()
	}
}

// watch compares Stats and Held with what they said before, until done.
func (o *storm) watch(done <-chan struct{}) {
	for last := (lockctx.Statistics{}); ; {
		st := stats(o.t, o.db)
		if st.LocksHeld < 0 || st.Waiters < 0 || st.Acquired < last.Acquired || st.Refused < last.Refused ||
			st.Released < last.Released || st.Lost < last.Lost || st.WaitTime < last.WaitTime || st.HandedOn < last.HandedOn ||
			st.Waited < last.Waited || st.SessionsDialled < last.SessionsDialled {
			o.t.Errorf("from %+v to %+v", last, st)
		}
		last = st
		for _, h := range heldBy(o.t, o.db) {
			if h.Since.IsZero() != (h.Session == 0) || h.Since.IsZero() && h.Waiters == 0 {
				o.t.Errorf("held: %+v", h)
			}
		}
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// Whatever happens to locks: each call is told once, each lock is told once, and the counters say the
// same as the events, at any moment as far as they can.
func TestEveryCallAndEveryLockIsToldOnceInAnyStorm(t *testing.T) {
	for _, closedInTheMidst := range []bool{false, true} {
		t.Run(fmt.Sprint("closed in the midst ", closedInTheMidst), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				t.Parallel()
				y := &tally{t: t, open: map[string]int{}}
				o := &storm{t: t, s: s, db: open(t, s, driver.WithObserver(y)), admin: s.Open(t), key: dbtest.Key(t)}
				done := make(chan struct{})
				var watch, wg sync.WaitGroup
				watch.Go(func() { o.watch(done) })
				for i := range 8 {
					wg.Go(func() {
						for range 40 {
							o.turn(i < 3)
						}
					})
				}
				if closedInTheMidst {
					for o.calls.Load() < 200 {
						time.Sleep(time.Millisecond)
					}
					require.NoError(t, o.db.Close())
				}
				wg.Wait()
				close(done)
				watch.Wait()
				require.NoError(t, o.db.Close())
				st := stats(t, o.db)
				t.Logf("%d calls: %+v", o.calls.Load(), st)
				require.Zero(t, st.LocksHeld)
				require.Zero(t, st.Waiters)
				require.Zero(t, st.SessionsOpen)
				require.Equal(t, o.calls.Load(), st.Acquired+st.Refused)
				require.Equal(t, o.got.Load(), st.Acquired)
				require.Equal(t, st.Acquired, st.Released+st.Lost)
				requireStats(t, st, &y.recorder)
				for k, n := range y.open {
					require.Zero(t, n, k)
				}
				require.Empty(t, heldBy(t, o.db))
			})
		})
	}
}
