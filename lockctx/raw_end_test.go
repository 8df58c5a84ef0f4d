package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// A Raw access holds the session until the next call on the conn: the end of
// the transaction is one, and would else wait for itself.
func TestATransactionEndsAfterARawAccessInIt(t *testing.T) {
	ends := map[string]func(*sql.Tx) error{"commit": (*sql.Tx).Commit, "rollback": (*sql.Tx).Rollback}
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s)
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				lk := acquire(t, db, dbtest.Key(t))
				c, err := lk.Conn(testCtx(t))
				require.NoError(t, err)
				tx, err := c.BeginTx(testCtx(t), nil)
				require.NoError(t, err)
				require.NoError(t, c.Raw(func(dc any) error {
					return rawExec(context.Background(), dc, "SELECT 1", "SELECT 1")
				}))
				require.NoError(t, within(t, async(func() error { return end(tx) }), promptly, "the end of the transaction"))
				require.NoError(t, c.Close())
				require.NoError(t, lk.Close())
			})
		}
	})
}

func TestATransactionBegunThroughRawEndsWithTheLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s, tab := newTable(t, s)
		db, key := open(t, s), dbtest.Key(t)
		lk := acquire(t, db, key)
		c, err := lk.Conn(testCtx(t))
		require.NoError(t, err)
		require.NoError(t, c.Raw(func(dc any) error {
			return rawExec(context.Background(), dc, "BEGIN", "BEGIN")
		}))
		tab.mustInsert(testCtx(t), c, 1)
		require.NoError(t, c.Close())
		if err := lk.Close(); s.IsMySQL() { // whose protocol does not tell that there was one
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, lockctx.ErrReleased)
			require.ErrorContains(t, err, "rolled back")
		}

		lk = acquire(t, db, key)
		tx, err := db.BeginTx(lk.Context(), nil) // commits what is open on MySQL's session
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.NoError(t, lk.Close())
		require.Empty(t, tab.ids())
	})
}

func TestInTxReleasesWhatWasTakenUnderIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, _ *sql.Tx) error {
			_, err := lockctx.Acquire(ctx, db, key+":2")
			return err
		}))
		require.True(t, out.try(key))
		require.True(t, out.try(key+":2"))
	})
}

func TestANestedAcquireDoesNotWaitForARawAccessForEver(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := openDSN(t, s.DSN()+"&lockdb_busy_timeout=100ms"), dbtest.Key(t)
		lk := acquire(t, db, key)
		c, err := lk.Conn(testCtx(t))
		require.NoError(t, err)
		require.NoError(t, c.Raw(func(dc any) error {
			return rawExec(context.Background(), dc, "SELECT 1", "SELECT 1")
		}))
		err = within(t, async(func() error {
			_, err := lockctx.Acquire(lk.Context(), db, key+":2")
			return err
		}), promptly, "an answer")
		require.ErrorIs(t, err, lockctx.ErrBusy)
		require.NoError(t, c.Close())
		inner, err := lockctx.Acquire(lk.Context(), db, key+":2")
		require.NoError(t, err)
		require.NoError(t, inner.Close())
		require.NoError(t, lk.Close())
	})
}

func TestTheTimeoutOfANestedAcquireHoldsWhileAStatementRuns(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s), dbtest.Key(t)
		lk := acquire(t, db, key)
		running := async(func() error {
			_, err := db.ExecContext(lk.Context(), sleepQuery(s, 4))
			return err
		})
		require.Eventually(t, func() bool { // the statement has begun once a try must wait for it
			_, err := lockctx.Acquire(lk.Context(), db, key+":2", lockctx.WithTimeout(50*time.Millisecond))
			return errors.Is(err, lockctx.ErrNotAcquired)
		}, promptly, time.Millisecond)
		select {
		case err := <-running:
			t.Fatal("the call waited for the end of the statement: ", err)
		default:
		}
		require.NoError(t, within(t, running, promptly, "the end of the statement"))
		require.NoError(t, lk.Close())
	})
}
