package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// eachFusing runs fn where the lock and BEGIN of InTx are one statement of SQL.
func eachFusing(t *testing.T, fn func(t *testing.T, s *dbtest.Server)) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		if s.IsMySQL() {
			fn(t, s)
		}
	})
}

func TestInTxCostsNoRoundTripExceptOneOnMySQL(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		relay, id, key := view.Relay(t), 0, dbtest.Key(t)
		relay.SetDelay(rtt / 2)
		bare, db := openBare(t, view, relay.DSN()), openDSN(t, relay.DSN())
		bare.SetMaxOpenConns(1)
		insert := func(ctx context.Context, tx *sql.Tx) error {
			id++
			return tab.insert(ctx, tx, id)
		}
		locked := func(opts *sql.TxOptions) func() error {
			return func() error { return lockctx.InTx(testCtx(t), db, key, opts, insert) }
		}
		more := 0
		if s.Kind() == dbtest.MySQL {
			more = 1
		}
		calls := []costing{
			{"the driver", 0, func() error {
				return inTx(testCtx(t), bare, func(tx *sql.Tx) error { return insert(testCtx(t), tx) })
			}},
			{"InTx", more, locked(nil)},
		}
		if s.Kind() != dbtest.MySQL {
			calls = append(calls, costing{"InTx of a level", 0, locked(&sql.TxOptions{Isolation: sql.LevelReadCommitted})})
		}
		requireRoundTrips(t, calls...)
	})
}

// autocommit is ON or OFF, as the server has it on the session. A text that names it lockdb would
// take for one that may change it.
func autocommit(ctx context.Context, t testing.TB, q asker) (value string) {
	t.Helper()
	require.NoError(t, q.QueryRowContext(ctx, "SHOW SESSION VARIABLES LIKE 'autoco%'").Scan(new(string), &value))
	return value
}

func TestAfterInTxItsSessionCommitsByItselfHoweverItEnded(t *testing.T) {
	mine := errors.New("mine")
	type end struct {
		t      *testing.T
		db     *sql.DB
		key    string
		tab    *table
		row    int
		before func(context.Context, *sql.Tx) // whatever the end: it writes the row
	}
	intx := func(e end, ctx context.Context, fn func(context.Context, *sql.Tx) error) error {
		return lockctx.InTx(ctx, e.db, e.key, nil, func(ctx context.Context, tx *sql.Tx) error {
			e.before(ctx, tx)
			return fn(ctx, tx)
		})
	}
	ends := map[string]struct {
		commits bool
		run     func(end)
	}{
		"a commit": {true, func(e end) {
			require.NoError(e.t, intx(e, testCtx(e.t), func(context.Context, *sql.Tx) error { return nil }))
		}},
		"an error": {false, func(e end) {
			require.ErrorIs(e.t, intx(e, testCtx(e.t), func(context.Context, *sql.Tx) error { return mine }), mine)
		}},
		"a panic": {false, func(e end) {
			require.PanicsWithValue(e.t, "mine", func() {
				_ = intx(e, testCtx(e.t), func(context.Context, *sql.Tx) error { panic("mine") })
			})
		}},
		"a cancel": {false, func(e end) {
			ctx, cancel := context.WithCancel(testCtx(e.t))
			require.ErrorIs(e.t, intx(e, ctx, func(context.Context, *sql.Tx) error { cancel(); return nil }), context.Canceled)
		}},
		"a commit by its function": {true, func(e end) {
			require.ErrorIs(e.t, intx(e, testCtx(e.t), func(ctx context.Context, tx *sql.Tx) error {
				require.NoError(e.t, tx.Commit())
				lk, _ := lockctx.FromContext(ctx)
				e.tab.mustInsert(ctx, lk.DB(), -e.row)
				require.Contains(e.t, e.tab.ids(), -e.row)
				return nil
			}), sql.ErrTxDone)
		}},
		"a rollback by its function": {false, func(e end) {
			require.ErrorIs(e.t, intx(e, testCtx(e.t), func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() }), sql.ErrTxDone)
		}},
		"a COMMIT in SQL text": {true, func(e end) {
			require.NoError(e.t, intx(e, testCtx(e.t), func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "COMMIT")
				return err
			}))
		}},
		"a transaction in SQL text": {true, func(e end) {
			require.NoError(e.t, intx(e, testCtx(e.t), func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "START TRANSACTION")
				return err
			}))
		}},
		"a nested lock left open": {true, func(e end) {
			require.NoError(e.t, intx(e, testCtx(e.t), func(ctx context.Context, _ *sql.Tx) error {
				_, err := lockctx.Acquire(ctx, e.db, e.key+":nested")
				return err
			}))
		}},
		"a hand-off": {true, func(e end) {
			var next <-chan error
			require.NoError(e.t, intx(e, testCtx(e.t), func(context.Context, *sql.Tx) error {
				next = async(func() error {
					return lockctx.Do(testCtx(e.t), e.db, e.key, func(ctx context.Context) error {
						lk, _ := lockctx.FromContext(ctx)
						e.tab.mustInsert(ctx, lk.DB(), -e.row)
						require.Contains(e.t, e.tab.ids(), -e.row)
						return nil
					})
				})
				queued(e.t, e.db, 1)
				return nil
			}))
			require.NoError(e.t, within(e.t, next, promptly, "the next holder"))
		}},
		"Close with the transaction open": {false, func(e end) {
			require.ErrorIs(e.t, intx(e, testCtx(e.t), func(ctx context.Context, _ *sql.Tx) error {
				lk, _ := lockctx.FromContext(ctx)
				return lk.Close()
			}), lockctx.ErrReleased)
		}},
	}
	eachFusing(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, key, id, row := open(t, view, driver.WithMaxIdleSessions(1)), dbtest.Key(t), int64(0), 0
		for name, how := range ends {
			row += 2
			how.run(end{t, db, key, tab, row, func(ctx context.Context, tx *sql.Tx) {
				if s.Kind() == dbtest.MySQL {
					require.Equal(t, "OFF", autocommit(ctx, t, tx), "else %s shows nothing", name)
				}
				tab.mustInsert(ctx, tx, row)
			}})
			require.Equal(t, how.commits, slices.Contains(tab.ids(), row), name)

			lk := acquire(t, db, key)
			now := sessionID(t, view, db, lk)
			if id != 0 {
				require.Equal(t, id, now, "%s cost the session", name)
			}
			id = now
			require.Equal(t, "ON", autocommit(lk.Context(), t, lk.DB()), name)
			tab.mustInsert(lk.Context(), lk.DB(), row+1)
			require.Contains(t, tab.ids(), row+1, "after %s a statement is not committed", name)
			require.NoError(t, lk.Close())
		}
	})
}

// queued waits until so many wait for the one lock that db holds.
func queued(t testing.TB, db *sql.DB, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		held, err := lockctx.Held(testCtx(t), db)
		return err == nil && len(held) == 1 && held[0].Waiters == n
	}, promptly, time.Millisecond)
}
