package lockctx_test

import (
	"bytes"
	"context"
	"database/sql"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// grant is what came of a wait for a lock.
type grant struct {
	lk  *lockctx.Lock
	err error
	at  time.Time
}

// waitFor acquires on a goroutine of its own and returns when that waits in this process, whether at
// the server or behind others.
func waitFor(ctx context.Context, t testing.TB, db *sql.DB, key string, opts ...lockctx.Option) <-chan grant {
	t.Helper()
	return waitIn(ctx, t, "(*Keeper).await", db, key, opts...)
}

// waitIn acquires on a goroutine of its own and returns when that is in the function.
func waitIn(ctx context.Context, t testing.TB, function string, db *sql.DB, key string, opts ...lockctx.Option) <-chan grant {
	t.Helper()
	label := dbtest.Key(t)
	granted := make(chan grant, 1)
	go pprof.Do(ctx, pprof.Labels("waiter", label), func(ctx context.Context) {
		lk, err := lockctx.Acquire(ctx, db, key, opts...)
		granted <- grant{lk, err, time.Now()}
	})
	require.Eventually(t, func() bool { return labelledIn(label, function) }, promptly, 3*time.Millisecond) // which looks at all goroutines
	return granted
}

// labelledIn reports whether the goroutine with that label is in the function.
func labelledIn(label, function string) bool {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	for _, stack := range strings.Split(b.String(), "\n\n") {
		if strings.Contains(stack, label) && strings.Contains(stack, function) {
			return true
		}
	}
	return false
}

// atOnce checks that what is tried takes no longer than limit. It has three tries: the machine may stall in one.
func atOnce(t testing.TB, limit time.Duration, try func() (took time.Duration)) {
	t.Helper()
	var all []time.Duration
	for range 3 {
		took := try()
		if took <= limit {
			return
		}
		all = append(all, took)
	}
	t.Fatalf("it took %v, each time more than %v", all, limit)
}

// cutShort runs a statement, of which the session is known, and ends its context while it runs.
func cutShort(ctx context.Context, t testing.TB, s *dbtest.Server, session int64, q asker) error {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := async(func() error { return second(q.ExecContext(ctx, sleepQuery(s, 20))) })
	require.Eventually(t, func() bool { return sleeps(t, s, session) }, promptly, time.Millisecond)
	cancel()
	return within(t, ended, promptly, "the end of the statement")
}

// requireWaitsAtServer waits until a session of the view's database waits for a lock at the server.
func requireWaitsAtServer(t testing.TB, view *dbtest.Server) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, session := range view.Sessions(t) {
			if session.State == "User lock" || session.State == "advisory" {
				return true
			}
		}
		return false
	}, promptly, time.Millisecond)
}
