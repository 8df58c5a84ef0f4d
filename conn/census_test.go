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
	began := time.Now()
	require.True(t, c.lives(other, began))
	require.True(t, c.lives(goid(), began))
	close(end)
	gone.Wait()
	require.Eventually(t, func() bool { return !c.lives(other, began) }, 10*time.Second, time.Millisecond)
}

// Losers of a lock release what they have not got, and there can be many.
func TestCensusesTakeUpAShareOfTheTimeOnly(t *testing.T) {
	c := census{cost: time.Hour, begun: time.Now().Add(-time.Hour)}
	require.True(t, c.lives(1<<40, time.Now()), "a goroutine counts as alive where it would take long to find out")
	require.Nil(t, c.alive)
	c.begun = time.Now().Add(-6 * time.Hour)
	require.False(t, c.lives(1<<40, time.Now()))
}

func TestWhoWasNotAmongThoseCountedLaterHasEndedHoweverLongItIsUntilTheNextCount(t *testing.T) {
	begun := time.Now()
	c := census{cost: time.Hour, begun: begun, alive: map[int64]bool{7: true}}
	require.False(t, c.lives(8, begun.Add(-time.Second)))
	require.False(t, c.lives(8, begun))
	require.True(t, c.lives(8, begun.Add(1)), "it may have begun since")
	require.True(t, c.lives(7, begun.Add(-time.Second)), "it may have ended since, or not")
	require.Equal(t, begun, c.begun, "nobody was counted")
}

func TestACountOfManyGoroutinesHasThemAll(t *testing.T) {
	ids, end := make(chan int64), make(chan struct{})
	var gone sync.WaitGroup
	defer gone.Wait()
	defer close(end)
	const many = 10_000
	for range many {
		gone.Go(func() {
			ids <- goid()
			<-end
		})
	}
	expect := make([]int64, many)
	for i := range expect {
		expect[i] = <-ids
	}
	size := 0
	for range 2 { // with nothing expected, and with as much as there was
		var alive map[int64]bool
		alive, size = goroutines(size)
		require.Greater(t, size, 1<<20)
		for _, id := range expect {
			require.True(t, alive[id])
		}
	}
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
