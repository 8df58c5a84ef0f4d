package lockctx_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// MySQL's BEGIN commits what is open; and on PostgreSQL the first COMMIT is for both.
func TestI3_ATransactionUnderALeaseIsNotCommittedByTheBeginOfAnotherOnItsConn(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		db, rows := open(t, view), newLeaseTable(t, view)
		for name, ctxs := range map[string]func(lk *lockctx.Lock) (first, second context.Context){
			"both under it": func(lk *lockctx.Lock) (first, second context.Context) { return lk.Context(), lk.Context() },
			"the first":     func(lk *lockctx.Lock) (first, second context.Context) { return lk.Context(), context.Background() },
			"the second":    func(lk *lockctx.Lock) (first, second context.Context) { return context.Background(), lk.Context() },
		} {
			for way, conn := range map[string]func(lk *lockctx.Lock) *sql.Conn{
				"the pool's": func(*lockctx.Lock) *sql.Conn { return connOf(t, db, context.Background()) },
				"the lock's": func(lk *lockctx.Lock) *sql.Conn { return lockConn(t, lk) },
			} {
				t.Run(name+", "+way, func(t *testing.T) {
					lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
					c := conn(lk)
					first, second := ctxs(lk)
					tx, err := c.BeginTx(first, nil)
					require.NoError(t, err)
					tab.mustInsert(testCtx(t), tx, 1)
					_, err = c.BeginTx(second, nil)
					require.ErrorIs(t, err, lockctx.ErrBusy)
					require.ErrorContains(t, err, "a transaction")
					require.Empty(t, tab.ids())
					rows.steal(lk.Key())
					if err := tx.Commit(); name == "the second" && way == "the pool's" {
						require.NoError(t, err)
						_, err = tab.bare.Exec("DELETE FROM t")
						require.NoError(t, err)
					} else {
						require.ErrorIs(t, err, lockctx.ErrLost)
					}
					require.Empty(t, tab.ids())
					require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
				})
			}
		}
	})
}
