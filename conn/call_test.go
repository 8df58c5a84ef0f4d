package conn

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestACallEndsWithItsCallersContextWhileItIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), lockKey{}, "value"))
		c := newCall(ctx, true)
		require.Equal(t, "value", c.Value(lockKey{}))
		require.NoError(t, c.Err())
		cancel()
		<-c.Done()
		require.ErrorIs(t, c.Err(), context.Canceled)
		c.finish()
		require.ErrorIs(t, c.Err(), context.Canceled, "the driver may ask for the reason later")
	})
}

func TestACallThatHasReturnedNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newCall(ctx, true)
		c.finish()
		cancel()
		c.kill(context.DeadlineExceeded)
		synctest.Wait()
		require.NoError(t, c.Err())
		select {
		case <-c.Done():
			t.Fatal("it has ended")
		default:
		}
	})
}

func TestACallUnderAContextThatHasEndedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := newCall(ctx, true)
		<-c.Done()
		require.ErrorIs(t, c.Err(), context.Canceled)
		c.finish()
	})
}

func TestACallThatIsKilledEndsOnceAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newCall(ctx, false)
		cancel()
		synctest.Wait()
		require.NoError(t, c.Err(), "only kill ends it")
		c.kill(context.DeadlineExceeded)
		c.kill(context.Canceled)
		<-c.Done()
		require.ErrorIs(t, c.Err(), context.DeadlineExceeded)
	})
}

func TestACallThatIsEndedFromAllSidesEndsOnceOrNever(t *testing.T) {
	for range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		c := newCall(ctx, true)
		var wg sync.WaitGroup
		for _, f := range []func(){cancel, c.finish, func() { c.kill(context.DeadlineExceeded) }} {
			wg.Go(f)
		}
		wg.Wait()
		err := c.Err()
		select {
		case <-c.Done():
			require.Error(t, err)
		default:
			require.NoError(t, err)
		}
	}
}

func TestACallIsOutlivedByWhatHasNotSeenItEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c, over := newCall(ctx, true), newCall(ctx, true)
		require.NoError(t, c.outlived())
		cancel()
		synctest.Wait()
		c.finish()
		require.NoError(t, c.Err())
		require.ErrorIs(t, over.outlived(), context.Canceled)
		over.finish()
		require.ErrorIs(t, over.Err(), context.Canceled)
	})
}
