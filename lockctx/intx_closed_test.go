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

// Who gets an error from InTx does the work again: it must not be there already.
func TestInTxGivesNoErrorForWhatItCommittedWhenTheDBCloses(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
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

func TestInTxSaysOnceWhatEndedItsLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, key := open(t, s), dbtest.Key(t)
		for name, opts := range map[string][]lockctx.Option{"session lock": nil, "lease": {lockctx.Lease(time.Minute)}} {
			err := lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, _ *sql.Tx) error {
				lk, _ := lockctx.FromContext(ctx)
				_ = lk.Close()
				return nil
			}, opts...)
			require.ErrorIs(t, err, lockctx.ErrReleased, name)
			require.Equal(t, 1, strings.Count(err.Error(), key), "%s: %v", name, err)
		}
	})
}
