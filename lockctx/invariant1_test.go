package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestI1_TheSessionThatHoldsTheLockIsTheOneThatIsUsed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		lk := acquire(t, db, key)
		holder := out.holder(key)
		require.NotZero(t, holder)

		//lint:ignore SA1029 any key will do
		derived, cancel := context.WithTimeout(context.WithValue(lk.Context(), "any", "value"), time.Minute)
		defer cancel()
		for name, ctx := range map[string]context.Context{
			"Context":       lk.Context(),
			"derived":       derived,
			"WithoutCancel": context.WithoutCancel(lk.Context()),
		} {
			require.Equal(t, holder, askID(ctx, t, s, db), name)
			require.Equal(t, holder, askID(ctx, t, s, lk.DB()), name)
		}

		for name, db := range map[string]*sql.DB{"db": db, "lk.DB()": lk.DB()} {
			tx, err := db.BeginTx(lk.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, holder, askID(context.Background(), t, s, tx), name)
			require.NoError(t, tx.Commit())
		}

		conn, err := lk.Conn(testCtx(t))
		require.NoError(t, err)
		require.Equal(t, holder, askID(context.Background(), t, s, conn))
		tx, err := conn.BeginTx(context.Background(), nil)
		require.NoError(t, err)
		require.Equal(t, holder, askID(context.Background(), t, s, tx))
		require.NoError(t, tx.Rollback())
		require.NoError(t, conn.Close())

		require.Equal(t, holder, out.holder(key), "still the same one")
		require.NoError(t, lk.Close())
		require.Zero(t, out.holder(key))
	})
}

func TestI1_DoAndInTxRunOnTheSessionThatHoldsTheLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		require.NoError(t, lockctx.Do(testCtx(t), db, key, func(ctx context.Context) error {
			require.Equal(t, out.holder(key), askID(ctx, t, s, db))
			return nil
		}))
		require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
			require.Equal(t, out.holder(key), askID(ctx, t, s, tx))
			return nil
		}))
	})
}

func TestI1_NestedLocksAreEachUsedOnTheSessionThatHoldsThem(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out := open(t, s), newOutsider(t, s)
		outerKey, innerKey := dbtest.Key(t), dbtest.Key(t)
		outer := acquire(t, db, outerKey)
		defer func() { require.NoError(t, outer.Close()) }()
		inner, err := lockctx.Acquire(outer.Context(), db, innerKey)
		require.NoError(t, err)
		require.Equal(t, out.holder(innerKey), askID(inner.Context(), t, s, db))
		require.Equal(t, out.holder(outerKey), askID(outer.Context(), t, s, db))
		require.NoError(t, inner.Close())
		require.Equal(t, out.holder(outerKey), askID(outer.Context(), t, s, db))
	})
}

func TestI1_ATransactionStaysWhereItBeganWhateverContextItsStatementsBear(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		defer func() { require.NoError(t, lk.Close()) }()
		locked := sessionID(t, s, db, lk)

		plain, err := db.BeginTx(testCtx(t), nil)
		require.NoError(t, err)
		own := askID(testCtx(t), t, s, plain)
		require.NotEqual(t, locked, own)
		require.Equal(t, own, askID(lk.Context(), t, s, plain))

		under, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, locked, askID(testCtx(t), t, s, under))
		other := acquire(t, db, dbtest.Key(t))
		require.Equal(t, locked, askID(other.Context(), t, s, under))
		require.NoError(t, other.Close())
		require.NoError(t, under.Commit())
		require.Equal(t, own, askID(lk.Context(), t, s, plain))
		require.NoError(t, plain.Commit())
	})
}

func TestI1_PreparedStatementsRunWhereTheirContextSays(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s)
		db.SetMaxOpenConns(1) // one connection, so that each Stmt meets both routes on it
		ask := func(ctx context.Context, stmt *sql.Stmt) (id int64) {
			t.Helper()
			require.NoError(t, stmt.QueryRowContext(ctx).Scan(&id))
			return id
		}
		before, err := db.PrepareContext(testCtx(t), idQuery(s))
		require.NoError(t, err)
		own := ask(testCtx(t), before)

		first := acquire(t, db, dbtest.Key(t))
		second := acquire(t, db, dbtest.Key(t))
		under, err := db.PrepareContext(first.Context(), idQuery(s))
		require.NoError(t, err)
		firstID, secondID := sessionID(t, s, db, first), sessionID(t, s, db, second)
		require.NotEqual(t, firstID, secondID)
		for range 2 { // prepared there, and there already
			for _, stmt := range []*sql.Stmt{before, under} {
				require.Equal(t, firstID, ask(first.Context(), stmt))
				require.Equal(t, own, ask(testCtx(t), stmt))
				require.Equal(t, secondID, ask(second.Context(), stmt))
			}
		}
		tx, err := db.BeginTx(first.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, firstID, ask(testCtx(t), tx.StmtContext(testCtx(t), before)))
		require.NoError(t, tx.Commit())
		require.NoError(t, first.Close())

		for _, stmt := range []*sql.Stmt{before, under} {
			require.ErrorIs(t, stmt.QueryRowContext(first.Context()).Err(), lockctx.ErrReleased)
			require.ErrorIs(t, stmt.QueryRowContext(context.WithoutCancel(first.Context())).Err(), lockctx.ErrReleased)
			require.Equal(t, own, ask(testCtx(t), stmt))
			require.Equal(t, secondID, ask(second.Context(), stmt))
			require.NoError(t, stmt.Close())
		}
		require.NoError(t, second.Close())
	})
}

func TestI1_GoroutinesUnderOneLockTakeTurnsOnItsSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		want := sessionID(t, s, db, lk)
		var wg sync.WaitGroup
		errs := make(chan error, 20)
		for range cap(errs) {
			wg.Go(func() {
				errs <- func() error {
					for range 20 {
						var id int64
						if err := db.QueryRowContext(lk.Context(), idQuery(s)).Scan(&id); err != nil {
							return err
						}
						if id != want {
							return errors.New("a statement ran on another session")
						}
					}
					return nil
				}()
			})
		}
		wg.Wait()
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
		require.NoError(t, lk.Close())
	})
}
