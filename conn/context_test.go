package conn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func newTestLock(k *Keeper) *Lock { return &Lock{keeper: k, key: "key"} }

func contextOf(l *Lock, parent context.Context) *lockCtx {
	l.opens(parent)
	return &l.ctx
}

type testKey struct{}

func TestTheLocksContextEndsWithTheLockForItselfAndAllDerivedFromIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := context.WithValue(t.Context(), testKey{}, "value")
		c := contextOf(newTestLock(&Keeper{}), parent)
		timeout, cancel := context.WithTimeout(c, time.Hour)
		defer cancel()
		cause, cancelCause := context.WithCancelCause(context.WithValue(timeout, testKey{}, "inner"))
		defer cancelCause(nil)
		detached := context.WithoutCancel(c)
		called := make(chan struct{})
		context.AfterFunc(cause, func() { close(called) })
		all := []context.Context{c, timeout, cause}
		for _, ctx := range all {
			require.NoError(t, ctx.Err())
			require.NoError(t, context.Cause(ctx))
		}

		c.endWith(fault("key", "", ErrLost))
		<-called
		for _, ctx := range all {
			<-ctx.Done()
			for _, err := range []error{ctx.Err(), context.Cause(ctx)} {
				require.ErrorIs(t, err, ErrLost)
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
			}
		}
		require.NoError(t, detached.Err())
		require.Equal(t, "value", c.Value(testKey{}))
		require.Equal(t, "inner", cause.Value(testKey{}))
	})
}

func TestTheLocksContextEndsWithItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		deadline, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		c := contextOf(newTestLock(&Keeper{}), deadline)
		want, _ := deadline.Deadline()
		got, ok := c.Deadline()
		require.True(t, ok)
		require.Equal(t, want, got)
		child, cancelChild := context.WithCancel(c)
		defer cancelChild()
		time.Sleep(time.Second) // in the bubble's time
		<-child.Done()
		for _, ctx := range []context.Context{c, child} {
			require.Equal(t, context.DeadlineExceeded, ctx.Err())
			require.Equal(t, why, context.Cause(ctx))
		}
		c.endWith(fault("key", "", ErrReleased))
		require.Equal(t, context.DeadlineExceeded, c.Err(), "it has ended before")
	})
}

func TestTheLocksContextUnderOneThatHasEndedHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := contextOf(newTestLock(&Keeper{}), ctx)
	require.Equal(t, context.Canceled, c.Err())
	<-c.Done()
	require.Equal(t, context.Canceled, context.Cause(c))
}

func TestAnAfterFuncRunsOnceUnlessItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := contextOf(newTestLock(&Keeper{}), t.Context())
		ran := 0
		stop := c.AfterFunc(func() { ran += 100 })
		require.True(t, stop())
		require.False(t, stop())
		stop = c.AfterFunc(func() { ran++ })
		c.endWith(fault("key", "", ErrReleased))
		synctest.Wait()
		require.Equal(t, 1, ran)
		require.False(t, stop())
		stop = c.AfterFunc(func() { ran++ })
		synctest.Wait()
		require.Equal(t, 2, ran)
		require.False(t, stop())
	})
}

func TestAContextTellsTheInnermostLockOfEachKeeper(t *testing.T) {
	k1, k2 := &Keeper{}, &Keeper{}
	outer, inner, other := newTestLock(k1), newTestLock(k1), newTestLock(k2)
	ctx1 := contextOf(outer, t.Context())
	ctx2 := contextOf(other, ctx1)
	ctx3 := contextOf(inner, ctx2)
	for _, x := range []struct {
		ctx      context.Context
		any      *Lock
		of1, of2 *Lock
	}{{t.Context(), nil, nil, nil}, {ctx1, outer, outer, nil}, {ctx2, other, outer, other}, {ctx3, inner, inner, other}} {
		got, ok := FromContext(context.WithValue(x.ctx, testKey{}, 1))
		require.Equal(t, x.any != nil, ok)
		require.Same(t, x.any, got)
		of1, _ := x.ctx.Value(k1).(*Lock)
		of2, _ := x.ctx.Value(k2).(*Lock)
		require.Same(t, x.of1, of1)
		require.Same(t, x.of2, of2)
	}
}

func TestALocksContextThatIsEndedFromAllSidesEndsOnce(t *testing.T) {
	for range 500 {
		parent, cancel := context.WithCancelCause(t.Context())
		c := contextOf(newTestLock(&Keeper{}), parent)
		var wg sync.WaitGroup
		ends := []func(){
			func() { cancel(errors.New("the parent's cause")) },
			func() { c.endWith(fault("key", "", ErrLost)) },
			func() { c.endWith(fault("key", "", ErrReleased)) },
		}
		rand.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
		for _, end := range ends {
			wg.Go(end)
		}
		seen := make(chan string, 10)
		for range 10 {
			wg.Go(func() {
				child, cancel := context.WithCancel(c)
				defer cancel()
				<-child.Done()
				seen <- fmt.Sprint(child.Err(), context.Cause(child))
			})
		}
		wg.Wait()
		want := fmt.Sprint(c.Err(), context.Cause(c))
		for range 10 {
			require.Equal(t, want, <-seen)
		}
	}
}
