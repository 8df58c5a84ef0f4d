package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestI3_AStatementThatRacesWithCloseNeverRunsUnderTheNextHolder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, key := open(t, view), dbtest.Key(t)
		ids, rollback := 0, errors.New("roll back")
		var made []int
		for range 100 {
			lk := acquire(t, db, key)
			next := async(func() error { // what ran in his transaction is not there afterwards
				return lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
					for range 3 {
						if _, err := tx.ExecContext(ctx, "SELECT 1"); err != nil {
							return err
						}
					}
					return rollback
				})
			})
			begun := make(chan struct{}, 1)
			ended := async(func() error {
				for {
					ids++
					if err := tab.insert(context.WithoutCancel(lk.Context()), lk.DB(), ids); err != nil {
						return err
					}
					made = append(made, ids)
					select {
					case begun <- struct{}{}:
					default:
					}
				}
			})
			<-begun
			require.NoError(t, lk.Close())
			require.ErrorIs(t, within(t, ended, promptly, "the statements"), lockctx.ErrReleased)
			require.ErrorIs(t, within(t, next, promptly, "the next holder"), rollback)
		}
		require.Equal(t, made, tab.ids())
	})
}
