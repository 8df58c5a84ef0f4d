package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// C40's ways in which a lock can have ended before a further Close.
var endings = map[string]struct {
	end   func(*testing.T, *dbtest.Server, *sql.DB, *lockctx.Lock)
	close error // what Close then says; nil is nothing
}{
	"closed": {
		end: func(t *testing.T, _ *dbtest.Server, _ *sql.DB, lk *lockctx.Lock) { require.NoError(t, lk.Close()) },
	},
	"closed with a transaction open": {
		end: func(t *testing.T, _ *dbtest.Server, db *sql.DB, lk *lockctx.Lock) {
			_, err := db.BeginTx(lk.Context(), nil)
			require.NoError(t, err)
			require.ErrorIs(t, lk.Close(), lockctx.ErrReleased)
		},
		close: lockctx.ErrReleased,
	},
	"killed": {
		end: func(t *testing.T, s *dbtest.Server, _ *sql.DB, lk *lockctx.Lock) {
			s.KillSession(t, holdingSession(t, s, lk))
			requireLost(t, lk)
		},
		close: lockctx.ErrLost,
	},
	"the database closed": {
		end:   func(t *testing.T, _ *dbtest.Server, db *sql.DB, _ *lockctx.Lock) { require.NoError(t, db.Close()) },
		close: lockctx.ErrClosed,
	},
}

func TestC40_ALaterCloseReturnsWhatTheFirstDidAndFreesNobodyElsesLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for name, ending := range endings {
			t.Run(name, func(t *testing.T) {
				db, again, out, key := open(t, s), open(t, s), newOutsider(t, s), dbtest.Key(t)
				lk := acquire(t, db, key)
				ending.end(t, s, db, lk)
				check := func() {
					err := lk.Close()
					if ending.close == nil {
						require.NoError(t, err)
					} else {
						require.ErrorIs(t, err, ending.close)
					}
				}
				check()
				// The key is acquired again: on the same session, where there is one, and by a stranger.
				if name != "the database closed" {
					next := acquire(t, db, key)
					check()
					require.False(t, out.try(key))
					require.NoError(t, next.Err())
					require.NoError(t, db.PingContext(next.Context()))
					require.NoError(t, next.Close())
				}
				other := acquire(t, again, key)
				check()
				require.False(t, out.try(key))
				require.NoError(t, other.Close())
				require.True(t, out.take(key))
				check()
				out.release(key)
			})
		}
	})
}

func TestC40_OfManyClosesAtOnceOneDoesTheWorkAndAllReturnTheSame(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, out, key := open(t, view), newOutsider(t, view), dbtest.Key(t)
		for round := range 40 {
			lk := acquire(t, db, key)
			openTx, killed := round%4 == 1, round%4 == 2
			if openTx {
				tx, err := db.BeginTx(lk.Context(), nil)
				require.NoError(t, err)
				tab.mustInsert(context.Background(), tx, round)
			}
			if killed {
				view.KillSession(t, holdingSession(t, view, lk))
			}
			errs := make(chan error, 10)
			var start sync.WaitGroup
			start.Add(1)
			for range cap(errs) {
				go func() {
					start.Wait()
					errs <- lk.Close()
				}()
			}
			start.Done()
			first := within(t, errs, promptly, "a Close")
			for range cap(errs) - 1 {
				require.Equal(t, first, within(t, errs, promptly, "a Close"))
			}
			switch {
			case killed:
				require.ErrorIs(t, first, lockctx.ErrLost)
			case openTx:
				require.ErrorIs(t, first, lockctx.ErrReleased)
			default:
				require.NoError(t, first)
			}
			out.free(key, promptly)
		}
		require.Empty(t, tab.ids())
	})
}

func TestC40_AnExplicitCloseBesideADeferredOneIsHarmless(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		var next *lockctx.Lock
		require.NoError(t, func() (err error) {
			lk := acquire(t, db, key)
			defer func() { err = errors.Join(err, lk.Close()) }()
			if err := lk.Close(); err != nil {
				return err
			}
			next = acquire(t, db, key) // with the deferred Close still to come
			return nil
		}())
		require.NoError(t, next.Err())
		require.False(t, out.try(key))
		require.NoError(t, next.Close())

		err := lockctx.Do(testCtx(t), db, key, func(ctx context.Context) error {
			lk, ok := lockctx.FromContext(ctx)
			require.True(t, ok)
			return lk.Close()
		})
		require.NoError(t, err)
		require.True(t, out.try(key))
	})
}

func TestC40_CloseDoesNotBlockForEverOnASilentNetwork(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		const ttl = 2 * time.Second
		relay, out, key := s.Relay(t), newOutsider(t, s), dbtest.Key(t)
		db := openDSN(t, relay.DSN(), driver.WithTTL(ttl))
		lk := acquire(t, db, key)
		relay.CutForGood()
		closed := async(lk.Close)
		out.free(key, promptly)
		require.ErrorIs(t, within(t, closed, promptly, "Close"), lockctx.ErrLost, "nobody confirmed the release")
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		relay.Heal()
		require.NoError(t, acquire(t, db, key).Close())
	})
}

func TestCloseOfTheDatabaseEndsWaitsAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		relay, key := s.Relay(t), dbtest.Key(t)
		db, other := openDSN(t, relay.DSN()), open(t, s)
		db.SetMaxOpenConns(2)
		held := acquire(t, other, key)
		mine := acquire(t, db, key+"2")
		ctx := testCtx(t)
		waits := []<-chan grant{
			waitFor(ctx, t, db, key), // at the server
			waitFor(ctx, t, db, key), // behind it
			waitFor(ctx, t, db, key, lockctx.WithTimeout(time.Minute)),
			waitFor(ctx, t, db, key+"2"), // for a lock of this process
		}
		relay.SetDelay(100 * time.Millisecond)
		trying := make(chan grant, 2) // on the way to the server
		for range cap(trying) {
			go func() {
				lk, err := lockctx.TryAcquire(ctx, db, dbtest.Key(t))
				trying <- grant{lk, err, time.Now()}
			}()
		}
		time.Sleep(50 * time.Millisecond)
		closed, stood := time.Now(), watchStandstill(t)
		require.NoError(t, db.Close())
		require.Less(t, time.Since(closed), 2*time.Second+stood.time())
		for i, c := range append(waits, trying, trying) {
			g := within(t, c, promptly, "the end of a wait")
			require.ErrorIs(t, g.err, lockctx.ErrClosed, "wait %d", i)
			require.NotErrorIs(t, g.err, lockctx.ErrNotAcquired)
			require.Less(t, g.at.Sub(closed), time.Second+stood.time())
		}
		require.ErrorIs(t, mine.Close(), lockctx.ErrClosed)
		require.Error(t, mine.Context().Err())
		_, err := lockctx.Acquire(ctx, db, key)
		require.ErrorIs(t, err, lockctx.ErrClosed)
		require.NoError(t, held.Close())
	})
}

// A busy timeout of 0 is for the user's own statements: what lockdb itself does on
// the session is not work under way.
func TestCloseWaitsForAKeepAliveWhateverTheBusyTimeout(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		relay, r := s.Relay(t), &rewriter{rewrite: asItIs}
		db := openDSN(t, relay.DSN(), driver.WithBusyTimeout(0), driver.WithTTL(pingTTL), driver.WithInterceptor(r))
		require.NoError(t, acquire(t, db, dbtest.Key(t)).Close())
		opened := relay.Accepted()
		relay.SetDelay(60 * time.Millisecond)
		for range 3 {
			lk := acquire(t, db, dbtest.Key(t))
			r.sent()
			require.Eventually(t, func() bool { return len(r.sent()) > 0 }, promptly, 2*time.Millisecond)
			require.NoError(t, lk.Close()) // while the ping is under way
		}
		require.LessOrEqual(t, relay.Accepted()-opened, int64(1))
	})
}
