package lockctx_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// endsWhenAsked is a context that has ended as soon as somebody waits for it.
type endsWhenAsked struct {
	context.Context
	asked atomic.Bool
	done  chan struct{} // closed
}

func (c *endsWhenAsked) Done() <-chan struct{} {
	c.asked.Store(true)
	return c.done
}

func (c *endsWhenAsked) Err() error {
	if c.asked.Load() {
		return context.Canceled
	}
	return nil
}

// The try on the shared session goes on without him, and by then what his call was
// made of may be another's.
func TestWhoGivesUpAMultiplexedLockLeavesNothingToTheTryThatGoesOn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, done := open(t, s), dbtest.Key(t), make(chan struct{})
		close(done)
		shares := acquire(t, db, key+"-shares", lockctx.Multiplexed())
		for range 200 {
			lk, err := lockctx.Acquire(&endsWhenAsked{Context: testCtx(t), done: done}, db, key, lockctx.Multiplexed())
			if err == nil { // it was granted at the same moment
				require.NoError(t, lk.Close())
				continue
			}
			require.ErrorIs(t, err, context.Canceled)
			require.NoError(t, acquire(t, db, key).Close())
		}
		require.NoError(t, shares.Close())
	})
}
