package conn

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestACensusTellsWhoHasEnded(t *testing.T) {
	var c census
	end, id := make(chan struct{}), make(chan int64)
	var gone sync.WaitGroup
	gone.Go(func() {
		id <- goid()
		<-end
	})
	other := <-id
	require.True(t, c.lives(other))
	require.True(t, c.lives(goid()))
	close(end)
	gone.Wait()
	require.Eventually(t, func() bool { return !c.lives(other) }, 10*time.Second, time.Millisecond)
}

// Losers of a lock release what they have not got, and there can be many.
func TestCensusesTakeUpAShareOfTheTimeOnly(t *testing.T) {
	c := census{cost: time.Second, begun: time.Now().Add(-time.Second)}
	require.True(t, c.lives(1<<40), "a goroutine counts as alive where it would take long to find out")
	require.Nil(t, c.alive)
	c.begun = time.Now().Add(-6 * time.Second)
	require.False(t, c.lives(1<<40))
}

func TestALockThatIsParkedForLongIsTold(t *testing.T) {
	told := make(chan Event, 1)
	k := newKeeper(Config{Options: Options{Observer: observerFunc(func(e Event) { told <- e })}})
	p := &parkedSession{ledger: rawLedger{locks: []string{"a", "b"}, parked: time.Now().Add(-parkedLong)}}
	k.parkedLong(p)
	require.Empty(t, told, "it has been released")
	k.parked.sessions = []*parkedSession{p}
	k.parkedLong(p)
	e := <-told
	require.Equal(t, EventParkedLong, e.Kind)
	require.Equal(t, []string{"a", "b"}, e.Keys)
	require.GreaterOrEqual(t, e.Duration, parkedLong)
}

type observerFunc func(Event)

func (f observerFunc) LockEvent(e Event) { f(e) }
