package orm_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// More goroutines than the pool has slots read a number, add one and write it
// back, in a transaction and without one, each under the lock.
func TestNoUpdateIsLostUnderALock(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, id int64) {
		const goroutines, turns = 4, 6
		require.NoError(t, c.insert(testCtx(t), id))
		require.NoError(t, c.rename(testCtx(t), id, "0"))
		c.db().SetMaxOpenConns(3)
		key := dbtest.Key(t)
		var wg sync.WaitGroup
		errs := make(chan error, goroutines*turns)
		for g := range goroutines {
			wg.Go(func() {
				for turn := range turns {
					errs <- lockctx.Do(testCtx(t), c.db(), key, func(ctx context.Context) error {
						if (g+turn)%2 == 0 {
							return addOne(ctx, c, id)
						}
						return addOneInTx(ctx, c, id)
					})
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		total, err := c.name(testCtx(t), id)
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(goroutines*turns), total)
	})
}

func addOne(ctx context.Context, w work, id int64) error {
	name, err := w.name(ctx, id)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(name)
	if err != nil {
		return err
	}
	return w.rename(ctx, id, strconv.Itoa(n+1))
}
