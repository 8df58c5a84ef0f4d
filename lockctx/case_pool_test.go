package lockctx_test

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestC07_PoolHousekeepingDoesNotTouchALocksSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		settings := map[string]func(*sql.DB){
			"no idle connections": func(db *sql.DB) { db.SetMaxIdleConns(0) },
			"short lives":         func(db *sql.DB) { db.SetConnMaxLifetime(500 * time.Millisecond) },
			"short idle times":    func(db *sql.DB) { db.SetConnMaxIdleTime(300 * time.Millisecond) },
		}
		for name, set := range settings {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				view, tab := newTable(t, s)
				db, out, key := open(t, view), newOutsider(t, view), dbtest.Key(t)
				set(db)
				lk := acquire(t, db, key)
				holder := out.holder(key)
				require.NotZero(t, holder)
				tx, err := db.BeginTx(lk.Context(), nil)
				require.NoError(t, err)
				tab.mustInsert(lk.Context(), tx, 1)
				for start := time.Now(); time.Since(start) < 2*time.Second; time.Sleep(100 * time.Millisecond) {
					require.NoError(t, db.PingContext(testCtx(t))) // so that the pool has something to tidy
				}
				require.NoError(t, lk.Err())
				require.Equal(t, holder, out.holder(key))
				require.Equal(t, holder, askID(lk.Context(), t, view, tx))
				require.NoError(t, tx.Commit())
				require.Equal(t, holder, askID(lk.Context(), t, view, db))
				require.NoError(t, lk.Close())
				require.True(t, out.try(key))
				require.Equal(t, []int{1}, tab.ids())
			})
		}
	})
}

func TestC08_FailedAcquiresLeaveNoConnectionBehind(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		db, out, key := open(t, view), newOutsider(t, view), dbtest.Key(t)
		db.SetMaxOpenConns(3)
		require.True(t, out.take(key))
		failures := map[string]func(context.Context) error{
			"held": func(ctx context.Context) error {
				_, err := lockctx.TryAcquire(ctx, db, key)
				return err
			},
			"timed out": func(ctx context.Context) error {
				_, err := lockctx.Acquire(ctx, db, key, lockctx.WithTimeout(3*time.Millisecond))
				return err
			},
			"cancelled": func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, 3*time.Millisecond)
				defer cancel()
				_, err := lockctx.Acquire(ctx, db, key)
				return err
			},
			"no key": func(ctx context.Context) error {
				_, err := lockctx.Acquire(ctx, db, "")
				return err
			},
			"key too long": func(ctx context.Context) error {
				_, err := lockctx.Acquire(ctx, db, strings.Repeat("k", 1<<20))
				return err
			},
			"Do": func(ctx context.Context) error {
				return lockctx.Do(ctx, db, key, nil, lockctx.WithTimeout(0))
			},
			"InTx": func(ctx context.Context) error {
				return lockctx.InTx(ctx, db, key, nil, nil, lockctx.WithTimeout(0))
			},
		}
		var wg sync.WaitGroup
		for name, fail := range failures {
			wg.Go(func() {
				for range 50 {
					if fail(testCtx(t)) == nil {
						t.Errorf("%s: it did not fail", name)
					}
				}
			})
		}
		wg.Wait()
		requireNothingInUse(t, db)
		out.release(key)
		require.NoError(t, acquire(t, db, key).Close())
		requireIdleSessions(t, view, 3) // two for locks, one of the pool's Ping
	})
}

func TestC08_WorkThatFailsOrPanicsLeavesNoConnectionBehind(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		db, out, key := open(t, view), newOutsider(t, view), dbtest.Key(t)
		db.SetMaxOpenConns(3)
		works := map[string]func(){
			"an error in Do": func() {
				_ = lockctx.Do(testCtx(t), db, key, func(context.Context) error { return context.Canceled })
			},
			"a panic in Do": func() {
				_ = lockctx.Do(testCtx(t), db, key, func(ctx context.Context) error {
					_, _ = db.QueryContext(ctx, "SELECT 1") //nolint:rowserrcheck,sqlclosecheck // left open by the panic
					panic("in Do")
				})
			},
			"an error in InTx": func() {
				_ = lockctx.InTx(testCtx(t), db, key, nil, func(context.Context, *sql.Tx) error { return context.Canceled })
			},
			"a panic in InTx": func() {
				_ = lockctx.InTx(testCtx(t), db, key, nil, func(_ context.Context, tx *sql.Tx) error {
					_, _ = tx.Query("SELECT 1") //nolint:rowserrcheck,sqlclosecheck,noctx // left open by the panic
					panic("in InTx")
				})
			},
		}
		for name, work := range works {
			t.Run(name, func(t *testing.T) {
				for range 5 {
					func() {
						defer func() { _ = recover() }()
						work()
					}()
					require.True(t, out.try(key))
				}
				requireNothingInUse(t, db)
			})
		}
		requireIdleSessions(t, view, 3)
	})
}

func TestC16_HoldersNeedNoSlotOfThePoolBesideTheirWork(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for _, limit := range []int{1, 5} {
			db := open(t, s)
			db.SetMaxOpenConns(limit)
			key := dbtest.Key(t)
			var all, work sync.WaitGroup
			all.Add(10)
			for i := range 10 {
				work.Go(func() {
					lk, err := lockctx.Acquire(testCtx(t), db, key+string(rune('a'+i)))
					all.Done()
					if err != nil {
						t.Error(err)
						return
					}
					all.Wait() // everyone holds a lock
					var n int
					for _, err := range []error{
						db.QueryRowContext(testCtx(t), "SELECT 1").Scan(&n),
						db.QueryRowContext(lk.Context(), "SELECT 1").Scan(&n),
						inTx(lk.Context(), db, func(tx *sql.Tx) error { return tx.QueryRow("SELECT 1").Scan(&n) }),
						lk.Close(),
					} {
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			work.Wait()
			requireNothingInUse(t, db)
		}
	})
}

// requireNothingInUse also checks that the pool still serves. What the end of a context closes database/sql closes on
// a goroutine of its own.
func requireNothingInUse(t testing.TB, db *sql.DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), promptly)
	defer cancel()
	require.NoError(t, db.PingContext(ctx))
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, promptly, time.Millisecond)
}

// requireIdleSessions waits until the view's database has at most n sessions
// beside the outsider's, with nothing going on in them.
func requireIdleSessions(t testing.TB, view *dbtest.Server, n int) {
	t.Helper()
	var sessions []dbtest.Session
	require.Eventually(t, func() bool {
		sessions = view.Sessions(t)
		for _, s := range sessions {
			if s.Command != "Sleep" && s.Command != "idle" {
				return false
			}
		}
		return len(sessions) <= n+1
	}, promptly, 10*time.Millisecond, "%+v", &sessions)
}
