package conn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheGateLetsOneThroughAtATimeInTheOrderTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		var order []int
		_, err := g.enter(t.Context(), "first", nil, time.Hour)
		require.NoError(t, err)
		for i := range 10 {
			go func() {
				_, err := g.enter(t.Context(), "later", nil, time.Hour)
				require.NoError(t, err)
				order = append(order, i) // only one at a time is here
				g.leave()
			}()
			synctest.Wait()
		}
		require.Empty(t, order)
		g.leave()
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
	})
}

func TestTheGateTellsWhatOccupiesItWhenPatienceIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		_, err := g.enter(t.Context(), "a result set", nil, 0)
		require.NoError(t, err)
		g.occupy()
		time.Sleep(3 * time.Second) // in the bubble's time
		start := time.Now()
		occupant, err := g.enter(t.Context(), "a statement", nil, 2*time.Second)
		require.ErrorIs(t, err, ErrBusy)
		require.Equal(t, "a result set, open for 5s", occupant)
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestAStatementThatRunsLongTriesNobodysPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		_, err := g.enter(t.Context(), "a statement", nil, time.Second)
		require.NoError(t, err)
		start := time.Now()
		time.AfterFunc(time.Hour, g.leave)
		_, err = g.enter(t.Context(), "another", nil, time.Second)
		require.NoError(t, err)
		require.Equal(t, time.Hour, time.Since(start))
	})
}

func TestWhoComesToAClosedGateIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		gone := errors.New("gone")
		_, err := g.enter(t.Context(), "inside", nil, time.Hour)
		require.NoError(t, err)
		waiting := make(chan error, 1)
		go func() {
			_, err := g.enter(t.Context(), "waiting", nil, time.Hour)
			waiting <- err
		}()
		synctest.Wait()
		g.close(gone)
		g.close(errors.New("again"))
		require.Equal(t, gone, <-waiting)
		_, err = g.enter(t.Context(), "late", nil, time.Hour)
		require.Equal(t, gone, err)
		g.leave()
		_, err = g.enter(t.Context(), "later", nil, time.Hour)
		require.Equal(t, gone, err)
	})
}

func TestATurnThatComesAsItsWaiterGivesUpIsNotLost(t *testing.T) {
	for range 2000 {
		var g gate
		_, err := g.enter(t.Context(), "first", nil, time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		gaveUp, served := make(chan error, 1), make(chan error, 1)
		wait := func(ctx context.Context, result chan error, place int) {
			go func() {
				_, err := g.enter(ctx, "waiter", nil, time.Hour)
				if err == nil {
					g.leave()
				}
				result <- err
			}()
			require.Eventually(t, func() bool {
				g.mu.Lock()
				defer g.mu.Unlock()
				return len(g.queue) == place
			}, 20*time.Second, 10*time.Microsecond)
		}
		wait(ctx, gaveUp, 1)
		wait(t.Context(), served, 2)
		go cancel()
		g.leave()
		<-gaveUp
		select {
		case err := <-served:
			require.NoError(t, err)
		case <-time.After(20 * time.Second):
			t.Fatal("the next in the queue was never let in")
		}
	}
}
