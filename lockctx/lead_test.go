package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// eachLead runs the test with a session lock and with a lease.
func eachLead(t *testing.T, fn func(t *testing.T, s *dbtest.Server, opts ...lockctx.Option)) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for name, opts := range map[string][]lockctx.Option{"session lock": nil, "lease": {lockctx.Lease(6 * time.Second), lockctx.RenewEvery(500 * time.Millisecond)}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				fn(t, s, opts...)
			})
		}
	})
}

var errWorkDone = errors.New("the work is done")

func TestLeadReturnsWhatItsFunctionReturned(t *testing.T) {
	eachLead(t, func(t *testing.T, s *dbtest.Server, opts ...lockctx.Option) {
		rec := &recorder{key: dbtest.Key(t)}
		db := open(t, s, driver.WithObserver(rec))
		require.NoError(t, lockctx.Lead(testCtx(t), db, rec.key, func(ctx context.Context) error {
			lk, ok := lockctx.FromContext(ctx)
			require.True(t, ok)
			return lk.Err()
		}, opts...))
		rec.tells(t, "acquired", "leading", "released", "deposed")
		err := lockctx.Lead(testCtx(t), db, rec.key, func(context.Context) error { return errWorkDone }, opts...)
		require.ErrorIs(t, err, errWorkDone)
	})
}

func TestOneLeadsAtATimeAndTheNextWhenItStepsDown(t *testing.T) {
	eachLead(t, func(t *testing.T, s *dbtest.Server, opts ...lockctx.Option) {
		key := dbtest.Key(t)
		type leader struct {
			stop   context.CancelFunc
			leads  chan struct{}
			result chan error
		}
		start := func() leader {
			ctx, stop := context.WithCancel(testCtx(t))
			l := leader{stop, make(chan struct{}), make(chan error, 1)}
			db := open(t, s)
			go func() {
				l.result <- lockctx.Lead(ctx, db, key, func(ctx context.Context) error {
					close(l.leads)
					<-ctx.Done()
					return nil
				}, opts...)
			}()
			return l
		}
		first := start()
		<-first.leads
		second := start()
		select {
		case <-second.leads:
			t.Fatal("two lead at a time")
		case <-time.After(100 * time.Millisecond):
		}
		first.stop()
		require.ErrorIs(t, <-first.result, context.Canceled)
		select {
		case <-second.leads:
		case <-time.After(promptly):
			t.Fatal("nobody leads")
		}
		second.stop()
		require.ErrorIs(t, <-second.result, context.Canceled)
	})
}

func TestWhoLosesTheLockLeadsAgainWhenHeHasIt(t *testing.T) {
	eachLead(t, func(t *testing.T, s *dbtest.Server, opts ...lockctx.Option) {
		view := s.CreateDatabase(t)
		rec := &recorder{key: dbtest.Key(t)}
		db := open(t, view, driver.WithObserver(rec))
		turns := 0
		require.NoError(t, lockctx.Lead(testCtx(t), db, rec.key, func(ctx context.Context) error {
			if turns++; turns == 2 {
				return nil
			}
			lk, _ := lockctx.FromContext(ctx)
			if lk.Token() == 0 {
				held, err := lockctx.Held(ctx, db)
				require.NoError(t, err)
				s.KillSession(t, held[0].Session)
			} else {
				table := newLeaseTable(t, view)
				table.steal(rec.key)
				table.expire(rec.key)
			}
			<-ctx.Done()
			require.ErrorIs(t, ctx.Err(), lockctx.ErrLost)
			return ctx.Err()
		}, opts...))
		require.Equal(t, 2, turns)
		deposed := 0
		for _, e := range rec.all() {
			if e.Kind == driver.EventDeposed {
				deposed++
				require.Equal(t, deposed == 1, errors.Is(e.Err, lockctx.ErrLost))
			}
		}
		require.Equal(t, 2, deposed)
	})
}

func TestLeadClosesTheLockWhenItsFunctionPanics(t *testing.T) {
	eachLead(t, func(t *testing.T, s *dbtest.Server, opts ...lockctx.Option) {
		db, key := open(t, s), dbtest.Key(t)
		require.Panics(t, func() {
			_ = lockctx.Lead(testCtx(t), db, key, func(context.Context) error { panic("the work failed") }, opts...)
		})
		lk, err := lockctx.TryAcquire(testCtx(t), open(t, s), key, opts...)
		require.NoError(t, err)
		require.NoError(t, lk.Close())
	})
}

func TestLeadReturnsWhatNoFurtherTryWouldMend(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s)
		never := func(context.Context) error { t.Error("it led"); return nil }
		require.ErrorIs(t, lockctx.Lead(testCtx(t), db, dbtest.Key(t), never, lockctx.WithTimeout(time.Second)), lockctx.ErrUnsupported)
		require.Error(t, lockctx.Lead(testCtx(t), db, "", never))
		require.Error(t, lockctx.Lead(testCtx(t), db, dbtest.Key(t), never, lockctx.Lease(-1)))
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		require.ErrorIs(t, lockctx.Lead(ended, db, dbtest.Key(t), never), context.Canceled)
		gone := open(t, s)
		require.NoError(t, gone.Close())
		require.ErrorIs(t, lockctx.Lead(testCtx(t), gone, dbtest.Key(t), never), lockctx.ErrClosed)
	})
}

func TestLeadDoesNotTryAgainWhereNoTableOfLeasesCanBe(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		if !s.IsMySQL() {
			return // every session is in a database
		}
		server, _, _ := strings.Cut(s.DSN(), "/")
		led := async(func() error {
			return lockctx.Lead(testCtx(t), openDSN(t, server+"/"), dbtest.Key(t), func(context.Context) error { return nil }, lockctx.Lease(time.Minute))
		})
		require.ErrorContains(t, within(t, led, promptly, "Lead"), "no database is selected")
	})
}

func TestLeadDoesNotTryAnEmptyDSNAgain(t *testing.T) {
	for name, opts := range map[string][]lockctx.Option{"session lock": nil, "lease": {lockctx.Lease(time.Second)}} {
		t.Run(name, func(t *testing.T) {
			db, err := sql.Open("lockdb", "")
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			err = lockctx.Lead(testCtx(t), db, "key", func(context.Context) error { return nil }, opts...)
			require.ErrorIs(t, err, lockctx.ErrUnsupported)
			require.ErrorContains(t, err, "the DSN is empty")
		})
	}
}
