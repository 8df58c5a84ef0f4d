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

// soon is how long after the end of its session a holder learns of it at most.
const soon = 100 * time.Millisecond

func TestC19_AHolderThatTheServerReapsLearnsItAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		reap := "SET SESSION wait_timeout = 1"
		if !s.IsMySQL() {
			reap = "SET idle_session_timeout = '1s'"
		}
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		requireSoon(t, soon, func() time.Duration {
			lk := acquire(t, db, key)
			told := endOf(lk.Context())
			_, err := db.ExecContext(lk.Context(), reap) // behind lockdb's back: its pings come later
			require.NoError(t, err)
			out.free(key, promptly)
			free := time.Now()
			took := within(t, told, promptly, "the end of the lock's context").Sub(free)
			require.ErrorIs(t, context.Cause(lk.Context()), lockctx.ErrLost)
			require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
			if s.Kind() == dbtest.Postgres {
				requireServerError(t, s, lk.Err(), 0, "57P05")
			}
			return took
		})
	})
}

func TestC19_IdleLimitsOfTheServerDoNotReapAHolder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		dsn := withParam(s, s.DSN(), "wait_timeout=2&net_write_timeout=1&net_read_timeout=1",
			"idle_session_timeout=2000&idle_in_transaction_session_timeout=2000")
		for name, db := range map[string]*sql.DB{
			"set in the DSN":      openDSN(t, dsn),
			"that lockdb set":     open(t, s, driver.WithTTL(2*time.Second)),
			"both in the shorter": openDSN(t, dsn, driver.WithTTL(3*time.Second)),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				idle := acquire(t, db, dbtest.Key(t))
				working := acquire(t, db, dbtest.Key(t))
				tx, err := db.BeginTx(working.Context(), nil)
				require.NoError(t, err)
				_, err = tx.Exec("SELECT 1")
				require.NoError(t, err)
				select {
				case <-idle.Context().Done():
				case <-working.Context().Done():
				case <-time.After(4500 * time.Millisecond):
				}
				require.NoError(t, idle.Err())
				require.NoError(t, working.Err())
				require.NoError(t, tx.Commit())
				require.NoError(t, idle.Close())
				require.NoError(t, working.Close())
			})
		}
	})
}

func TestC20_NothingRunsOnAFreshSessionAfterALoss(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, key := open(t, view), dbtest.Key(t)
		// Each writes under the lock; the write comes after the loss.
		writes := map[string]func(*testing.T, *lockctx.Lock) (write func() error){
			"Exec": func(_ *testing.T, lk *lockctx.Lock) func() error {
				return func() error { return tab.insert(lk.Context(), db, 1) }
			},
			"Exec of the lock's DB": func(_ *testing.T, lk *lockctx.Lock) func() error {
				return func() error { return tab.insert(lk.Context(), lk.DB(), 1) }
			},
			"Exec without a cancel": func(_ *testing.T, lk *lockctx.Lock) func() error {
				return func() error { return tab.insert(context.WithoutCancel(lk.Context()), db, 1) }
			},
			"Exec in a transaction": func(t *testing.T, lk *lockctx.Lock) func() error {
				tx, err := db.BeginTx(lk.Context(), nil)
				require.NoError(t, err)
				return func() error { return tab.insert(context.Background(), tx, 1) }
			},
			"Exec of the lock's Conn": func(t *testing.T, lk *lockctx.Lock) func() error {
				c, err := lk.Conn(testCtx(t))
				require.NoError(t, err)
				t.Cleanup(func() { _ = c.Close() })
				return func() error { return tab.insert(context.Background(), c, 1) }
			},
			"Exec of a prepared statement": func(t *testing.T, lk *lockctx.Lock) func() error {
				stmt, err := db.PrepareContext(lk.Context(), "INSERT INTO t VALUES (1, 0)")
				require.NoError(t, err)
				t.Cleanup(func() { _ = stmt.Close() })
				return func() error {
					_, err := stmt.ExecContext(context.WithoutCancel(lk.Context()))
					return err
				}
			},
			"BeginTx": func(_ *testing.T, lk *lockctx.Lock) func() error {
				return func() error {
					return inTx(context.WithoutCancel(lk.Context()), db, func(tx *sql.Tx) error {
						return tab.insert(context.Background(), tx, 1)
					})
				}
			},
			"Ping": func(_ *testing.T, lk *lockctx.Lock) func() error {
				return func() error { return db.PingContext(context.WithoutCancel(lk.Context())) }
			},
		}
		for name, prepare := range writes {
			t.Run(name, func(t *testing.T) {
				lk := acquire(t, db, key)
				write := prepare(t, lk)
				view.KillSession(t, holdingSession(t, view, lk))
				err := write() // also when the loss has not been noticed yet
				require.Error(t, err)
				requireLost(t, lk)
				err = write()
				require.Error(t, err)
				if name != "Exec in a transaction" { // database/sql: ErrTxDone
					require.ErrorIs(t, err, lockctx.ErrLost)
				}
				require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
				require.Empty(t, tab.ids())
			})
		}
	})
}

func TestC21_AKillIsToldAtOnceWhereverItMeetsTheHolder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, other, key := open(t, view), open(t, view), dbtest.Key(t)
		holders := map[string]func(context.Context, *lockctx.Lock) error{
			"idle": func(ctx context.Context, _ *lockctx.Lock) error { <-ctx.Done(); return nil },
			"in a long query": func(ctx context.Context, _ *lockctx.Lock) error {
				_, err := db.ExecContext(ctx, sleepQuery(view, 30))
				return err
			},
			"between two statements": func(ctx context.Context, lk *lockctx.Lock) error {
				for lk.Err() == nil {
					if _, err := db.ExecContext(ctx, sleepQuery(view, 0.005)); err != nil {
						return err
					}
				}
				return nil
			},
			"between two statements of a transaction": func(ctx context.Context, lk *lockctx.Lock) error {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				for id := 0; lk.Err() == nil; id++ {
					if err := tab.insert(context.Background(), tx, id); err != nil {
						return err
					}
				}
				return tx.Commit()
			},
			"in a result set": func(ctx context.Context, lk *lockctx.Lock) error {
				rows, err := db.QueryContext(ctx, "SELECT 1 UNION ALL SELECT 2")
				if err != nil {
					return err
				}
				defer func() { _ = rows.Close() }()
				rows.Next()
				<-ctx.Done()
				return rows.Err()
			},
		}
		for name, work := range holders {
			t.Run(name, func(t *testing.T) {
				requireSoon(t, soon, func() time.Duration {
					lk := acquire(t, db, key)
					id, told := holdingSession(t, view, lk), endOf(lk.Context())
					worked := async(func() error { return work(lk.Context(), lk) })
					next := waitFor(testCtx(t), t, other, key)
					time.Sleep(20 * time.Millisecond) // let it get into its work
					killed := time.Now()
					view.KillSession(t, id)
					g := within(t, next, promptly, "the next holder")
					require.NoError(t, g.err)
					took := within(t, told, promptly, "the end of the lock's context").Sub(killed)
					if err := within(t, worked, promptly, "the end of the work"); err != nil {
						require.ErrorIs(t, err, lockctx.ErrLost)
					}
					require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
					require.NoError(t, g.lk.Err(), "the end of the first lock is not the second one's")
					require.NoError(t, g.lk.Close())
					return took
				})
				require.Empty(t, tab.ids(), "something was committed")
			})
		}
	})
}

// holdingSession is the server's id of the session that holds the lock, which is
// not asked itself.
func holdingSession(t testing.TB, s *dbtest.Server, lk *lockctx.Lock) int64 {
	t.Helper()
	id := newOutsider(t, s).holder(lk.Key())
	require.NotZero(t, id)
	return id
}
