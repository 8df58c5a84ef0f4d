package lockctx_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// Who gets an error from InTx does the work again: it must not be there already.
func TestInTxGivesNoErrorForWhatItCommittedWhenTheDBCloses(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		key, failed := dbtest.Key(t), make(map[int]error)
		for id := range 60 {
			db := open(t, view)
			var closer sync.WaitGroup
			err := lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
				if err := tab.insert(ctx, tx, id); err != nil {
					return err
				}
				closer.Go(func() {
					time.Sleep(time.Duration(id) * 10 * time.Microsecond) // before, in the midst of and after the commit
					_ = db.Close()
				})
				return nil
			})
			closer.Wait()
			if err != nil {
				failed[id] = err
			}
		}
		for _, id := range tab.ids() {
			require.NoError(t, failed[id], "it is committed")
		}
	})
}
