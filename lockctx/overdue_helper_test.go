package lockctx_test

import (
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// logGoroutines logs where each goroutine is, for a wait that has taken too long.
func logGoroutines(t testing.TB) {
	t.Helper()
	var b strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&b, 2)
	t.Logf("the goroutines:\n%s", b.String())
}

// logServer logs what the server does for whom, and who has the locks.
func logServer(t testing.TB, view *dbtest.Server, keys ...string) {
	t.Helper()
	for _, s := range view.Sessions(t) {
		t.Logf("session %d: %s, %s: %s", s.ID, s.Command, s.State, s.Query)
	}
	out := newOutsider(t, view)
	for _, key := range keys {
		t.Logf("%s is held by session %d", key, out.holder(key))
	}
}

// becomes waits until yes is true, or fails the test as within does.
func becomes(t testing.TB, yes func() bool, what string, explain ...func()) {
	t.Helper()
	if assert.Eventually(t, yes, promptly, 10*time.Millisecond, what) {
		return
	}
	logGoroutines(t)
	for _, f := range explain {
		f()
	}
	t.FailNow()
}
