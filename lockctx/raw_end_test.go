package lockctx_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// A Raw access holds the session until the next call on the conn: the end of
// the transaction is one, and would else wait for itself.
func TestATransactionEndsAfterARawAccessInIt(t *testing.T) {
	ends := map[string]func(*sql.Tx) error{"commit": (*sql.Tx).Commit, "rollback": (*sql.Tx).Rollback}
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
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
		require.NoError(t, lk.Close())

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
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, _ *sql.Tx) error {
			_, err := lockctx.Acquire(ctx, db, key+":2")
			return err
		}))
		require.True(t, out.try(key))
		require.True(t, out.try(key+":2"))
	})
}
