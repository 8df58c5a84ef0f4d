package lockctx_test

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

// noRelease, once armed, lets no statement through that releases a lock.
type noRelease struct {
	sqlmw.NullInterceptor
	armed   atomic.Bool
	refused atomic.Bool
}

func (i *noRelease) ConnQueryContext(ctx context.Context, c sqldriver.QueryerContext, query string, args []sqldriver.NamedValue) (context.Context, sqldriver.Rows, error) {
	if i.armed.Load() && (strings.Contains(query, "RELEASE_LOCK") || strings.Contains(query, "pg_advisory_unlock")) {
		i.refused.Store(true)
		return ctx, nil, errors.New("no release today")
	}
	rows, err := c.QueryContext(ctx, query, args)
	return ctx, rows, err
}

// A lock that is granted when nobody waits any more is given back. If that fails, it goes with its session,
// and nobody has an error to learn it from.
func TestTheLogWarnsOfALockForNobodyThatCouldNotBeReleased(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		var j journal
		i, key, out := &noRelease{}, dbtest.Key(t), newOutsider(t, view)
		db := open(t, view, driver.WithInterceptor(i), driver.WithLogger(j.logger(slog.LevelWarn)))
		require.NoError(t, acquire(t, db, key).Close())
		i.armed.Store(true)
		for deadline := time.Now().Add(2 * promptly); !i.refused.Load() && time.Now().Before(deadline); {
			require.True(t, out.take(key))
			ctx, cancel := context.WithCancel(testCtx(t))
			waiting := waitFor(ctx, t, db, key)
			requireWaitsAtServer(t, view)
			cancel() // with most of a slice at the server to come, or else the next turn will do
			require.ErrorIs(t, within(t, waiting, promptly, "the end of the wait").err, context.Canceled)
			out.release(key)
			require.Eventually(t, func() bool { return stats(t, db).SessionsIdle == stats(t, db).SessionsOpen }, promptly, time.Millisecond)
		}
		j.says(t, "WARN a lock that nobody waits for any more could not be released: its session was closed, and the lock with it")
		out.free(key, promptly)
	})
}
