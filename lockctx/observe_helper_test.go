package lockctx_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// recorder notes the events of the locks whose keys begin with key.
type recorder struct {
	key string

	mu     sync.Mutex // guards events
	events []driver.Event
}

func (r *recorder) LockEvent(e driver.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) all() []driver.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// story is what happened, with the rest of the key where it is longer than key.
func (r *recorder) story() []string {
	var story []string
	for _, e := range r.all() {
		story = append(story, string(e.Kind)+strings.TrimPrefix(e.Key, r.key))
	}
	return story
}

// tells waits until what happened is this, and nothing else.
func (r *recorder) tells(t testing.TB, story ...string) {
	t.Helper()
	deadline := time.Now().Add(promptly)
	for len(r.story()) < len(story) && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	require.Equal(t, story, r.story())
}

// only is the one event of that kind.
func (r *recorder) only(t testing.TB, kind driver.EventKind) driver.Event {
	t.Helper()
	var found []driver.Event
	for _, e := range r.all() {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	require.Len(t, found, 1, "events of kind %q in %v", kind, r.story())
	return found[0]
}

// requireStats checks the counters against what the recorder was told: of each
// event they must say the same.
func requireStats(t testing.TB, st lockctx.Statistics, r *recorder) {
	t.Helper()
	told := map[driver.EventKind]int64{}
	for _, e := range r.all() {
		told[e.Kind]++
	}
	require.Equal(t, told, withoutZeros(map[driver.EventKind]int64{
		driver.EventAcquired: st.Acquired,
		driver.EventWaited:   st.Waited,
		driver.EventRefused:  st.Refused,
		driver.EventReleased: st.Released,
		driver.EventLost:     st.Lost,
		driver.EventHandedOn: st.HandedOn,
	}))
}

func withoutZeros(m map[driver.EventKind]int64) map[driver.EventKind]int64 {
	for k, n := range m {
		if n == 0 {
			delete(m, k)
		}
	}
	return m
}

// runsNow tells whether a session in the view's database runs a statement with that text.
func runsNow(t testing.TB, view *dbtest.Server, text string) bool {
	t.Helper()
	for _, session := range view.Sessions(t) {
		if (session.Command == "Query" || session.Command == "active") && strings.Contains(strings.ToLower(session.Query), text) {
			return true
		}
	}
	return false
}
