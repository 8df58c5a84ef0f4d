package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestI3_ACommitAfterTheLossFailsAndLeavesNoRow(t *testing.T) {
	for name, wait := range map[string]func(testing.TB, *lockctx.Lock){
		"at once":               func(testing.TB, *lockctx.Lock) {},
		"when the loss is told": requireLost,
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				view, tab := newTable(t, s)
				db, out := open(t, view), newOutsider(t, view)
				for id := range 10 {
					lk := acquire(t, db, dbtest.Key(t))
					tx, err := db.BeginTx(lk.Context(), nil)
					require.NoError(t, err)
					tab.mustInsert(testCtx(t), tx, id)
					session := askID(testCtx(t), t, s, tx)

					s.KillSession(t, session)
					out.free(lk.Key(), promptly) // the server has ended it
					wait(t, lk)
					err = tx.Commit()
					requireLost(t, lk)
					requireCommitFailed(t, err, lk, lockctx.ErrLost)
					require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
				}
				require.Empty(t, tab.ids())
			})
		})
	}
}

func TestI3_InTxReturnsErrLostAndLeavesNoRowWhenTheSessionIsKilled(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, key := open(t, view), dbtest.Key(t)
		err := lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
			tab.mustInsert(ctx, tx, 1)
			s.KillSession(t, askID(ctx, t, s, tx))
			lk, _ := lockctx.FromContext(ctx)
			requireLost(t, lk)
			return nil
		})
		require.ErrorIs(t, err, lockctx.ErrLost)
		require.NotErrorIs(t, err, lockctx.ErrOutcomeUnknown)
		require.Empty(t, tab.ids())
		require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
			return tab.insert(ctx, tx, 1)
		}), "the next one is not affected")
		require.Equal(t, []int{1}, tab.ids())
	})
}

// everyWay runs fn with every way to run a statement under lk: the first result is the way's name.
func everyWay(t *testing.T, db *sql.DB, lk *lockctx.Lock, fn func(way string, ctx context.Context, q asker)) {
	t.Helper()
	ctxs := map[string]context.Context{
		"Context":       lk.Context(),
		"WithoutCancel": context.WithoutCancel(lk.Context()),
		//lint:ignore SA1029 any key will do
		"a value": context.WithValue(context.WithoutCancel(lk.Context()), "any", "value"),
	}
	c, err := db.Conn(context.Background())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for name, ctx := range ctxs {
		fn(name+" on db", ctx, db)
		fn(name+" on lk.DB()", ctx, lk.DB())
		fn(name+" on a Conn", ctx, c)
	}
}

func TestI3_NothingRunsElsewhereOnceTheLockHasEnded(t *testing.T) {
	for name, end := range map[string]struct {
		do   func(*testing.T, *dbtest.Server, *sql.DB, *lockctx.Lock)
		want error
	}{
		"KILL, at once": {func(t *testing.T, s *dbtest.Server, db *sql.DB, lk *lockctx.Lock) {
			s.KillSession(t, sessionID(t, s, db, lk))
			newOutsider(t, s).free(lk.Key(), promptly)
		}, lockctx.ErrLost},
		"KILL, told": {func(t *testing.T, s *dbtest.Server, db *sql.DB, lk *lockctx.Lock) {
			s.KillSession(t, sessionID(t, s, db, lk))
			requireLost(t, lk)
		}, lockctx.ErrLost},
		"Close": {func(t *testing.T, _ *dbtest.Server, _ *sql.DB, lk *lockctx.Lock) {
			require.NoError(t, lk.Close())
		}, lockctx.ErrReleased},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				view, tab := newTable(t, s)
				db := open(t, view)
				lk := acquire(t, db, dbtest.Key(t))
				before, err := db.PrepareContext(testCtx(t), "INSERT INTO t VALUES (100, 0)")
				require.NoError(t, err)
				under, err := db.PrepareContext(lk.Context(), "INSERT INTO t VALUES (101, 0)")
				require.NoError(t, err)
				bound, err := lk.Conn(testCtx(t))
				require.NoError(t, err)

				end.do(t, view, db, lk)
				id := 0
				everyWay(t, db, lk, func(way string, ctx context.Context, q asker) {
					id++
					require.ErrorIs(t, tab.insert(ctx, q, id), end.want, way)
					var one int
					require.ErrorIs(t, q.QueryRowContext(ctx, "SELECT 1").Scan(&one), end.want, way)
				})
				for _, ctx := range []context.Context{lk.Context(), context.WithoutCancel(lk.Context())} {
					for _, db := range []*sql.DB{db, lk.DB()} {
						_, err = db.BeginTx(ctx, nil)
						require.ErrorIs(t, err, end.want)
						_, err = db.PrepareContext(ctx, "SELECT 1")
						require.ErrorIs(t, err, end.want)
						require.ErrorIs(t, db.PingContext(ctx), end.want)
					}
					for _, stmt := range []*sql.Stmt{before, under} {
						_, err = stmt.ExecContext(ctx)
						require.ErrorIs(t, err, end.want)
					}
				}
				require.ErrorIs(t, tab.insert(testCtx(t), bound, 102), end.want, "a Conn of the lock stays the lock's")
				require.NoError(t, bound.Close())
				_, err = lk.Conn(testCtx(t))
				require.ErrorIs(t, err, end.want)
				require.Empty(t, tab.ids())
				require.NoError(t, before.Close())
				require.NoError(t, under.Close())
				tab.mustInsert(testCtx(t), db, 103) // others go on
			})
		})
	}
}

func TestI3_AStatementThatIsKilledWhileItRunsIsNotRunAgainElsewhere(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db := open(t, view)
		tab.mustInsert(testCtx(t), db, 0)
		// MySQL lets a statement that KILL finds in SLEEP commit what it has: the row says where.
		slow := "INSERT INTO t SELECT %d, CONNECTION_ID() + 0 * SLEEP(20) FROM t WHERE id = 0"
		if !s.IsMySQL() {
			slow = "INSERT INTO t SELECT %d, CASE WHEN pg_sleep(20) IS NOT NULL THEN pg_backend_pid() END FROM t WHERE id = 0"
		}
		run := map[string]func(ctx context.Context, query string) error{
			"db": func(ctx context.Context, query string) error { _, err := db.ExecContext(ctx, query); return err },
			"a prepared statement": func(ctx context.Context, query string) error {
				stmt, err := db.PrepareContext(context.Background(), query)
				if err != nil {
					return err
				}
				defer func() { _ = stmt.Close() }()
				_, err = stmt.ExecContext(ctx)
				return err
			},
			"a transaction": func(ctx context.Context, query string) error {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				_, err = tx.Exec(query)
				return errors.Join(err, tx.Rollback())
			},
			"a query": func(ctx context.Context, query string) error {
				rows, err := db.QueryContext(ctx, query) //nolint:rowserrcheck,sqlclosecheck // it fails
				if err == nil {
					defer func() { _ = rows.Close() }()
					for rows.Next() { //nolint:revive // to its end
					}
					err = rows.Err()
				}
				return err
			},
		}
		id := 0
		for name, exec := range run {
			id++
			lk := acquire(t, db, dbtest.Key(t))
			session := sessionID(t, s, db, lk)
			done := async(func() error { return exec(lk.Context(), fmt.Sprintf(slow, id)) })
			require.Eventually(t, func() bool { return sleeps(t, view, session) }, promptly, time.Millisecond, name)
			s.KillSession(t, session)
			require.ErrorIs(t, within(t, done, promptly, name), lockctx.ErrLost, name)
			requireLost(t, lk)
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
			for _, got := range tab.ids() {
				require.True(t, got < id || tab.value(id) == int(session), "%s ran on another session", name)
			}
		}
	})
}
