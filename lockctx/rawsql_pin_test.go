package lockctx_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// pin takes a session that the test cannot do without.
func pin(t testing.TB, db *sql.DB) *lockctx.Pinned {
	t.Helper()
	p, err := lockctx.Pin(testCtx(t), db)
	require.NoError(t, err)
	return p
}

// yesUnder is yes on the session of ctx.
func yesUnder(ctx context.Context, t testing.TB, db rower, query string) bool {
	t.Helper()
	var answer sql.NullBool
	require.NoError(t, db.QueryRowContext(ctx, query).Scan(&answer))
	return answer.Bool
}

func TestGoroutinesAndTheirTransactionsShareAPinnedSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		db, out, key := open(t, view), newOutsider(t, view), dbtest.Key(t)
		db.SetMaxOpenConns(2) // and the pin needs none
		text, p := rawSQLFor(t, view, key), pin(t, db)
		require.True(t, yesUnder(p.Context(), t, db, text.take))
		id := askID(p.Context(), t, view, db)
		require.NotEqual(t, id, askID(testCtx(t), t, view, db), "without its context it is another session")
		var all errgroup.Group
		for i := range 8 {
			on := db
			if i%2 == 0 {
				on = p.DB()
			}
			all.Go(func() error {
				tx, err := on.BeginTx(p.Context(), nil)
				if err != nil {
					return err
				}
				defer func() { _ = tx.Rollback() }()
				if err := tab.insert(testCtx(t), tx, i); err != nil {
					return err
				}
				var here int64
				if err := tx.QueryRow(idQuery(view)).Scan(&here); err != nil || here != id {
					return fmt.Errorf("session %d, not %d: %w", here, id, err)
				}
				return tx.Commit()
			})
		}
		require.NoError(t, all.Wait())
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, tab.ids())
		require.False(t, out.try(key), "a transaction's end released it")
		require.NoError(t, p.Close())
		require.True(t, out.try(key))
	})
}

func TestAPinnedSessionAsAConnRunsEverythingThere(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		text, p := rawSQLFor(t, s, key), pin(t, db)
		c, err := p.Conn(testCtx(t))
		require.NoError(t, err)
		require.True(t, yes(t, c, text.take))
		require.NoError(t, c.Close())
		require.False(t, out.try(key), "the session is pinned, whoever had it as a conn")
		require.True(t, yesUnder(p.Context(), t, db, text.release))
		require.True(t, out.try(key))
		require.NoError(t, p.Close())
	})
}

func TestAllLocksOfAPinnedSessionCanBeReleasedAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, keys := open(t, s), newOutsider(t, s), []string{dbtest.Key(t), dbtest.Key(t)}
		all := "SELECT RELEASE_ALL_LOCKS()"
		if !s.IsMySQL() {
			all = "SELECT pg_advisory_unlock_all()"
		}
		p := pin(t, db)
		for _, key := range keys {
			require.True(t, yesUnder(p.Context(), t, db, rawSQLFor(t, s, key).take))
			require.False(t, out.try(key))
		}
		require.NoError(t, second(db.ExecContext(p.Context(), all)))
		for _, key := range keys {
			require.True(t, out.try(key))
		}

		lk, err := lockctx.Acquire(p.Context(), db, keys[0])
		require.NoError(t, err)
		require.ErrorIs(t, second(db.ExecContext(p.Context(), all)), lockctx.ErrUnsupported, "one of them is lockdb's")
		require.NoError(t, lk.Close())
		require.NoError(t, second(db.ExecContext(p.Context(), all)))
		require.NoError(t, p.Close())
	})
}

func TestALockAcquiredUnderAPinsContextIsOnItsSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		text, p := rawSQLFor(t, s, key), pin(t, db)
		id := askID(p.Context(), t, s, db)

		lk, err := lockctx.Acquire(p.Context(), db, key)
		require.NoError(t, err)
		require.Equal(t, id, sessionID(t, s, db, lk))
		require.Equal(t, id, out.holder(key))
		require.NoError(t, lk.Close())
		require.True(t, out.try(key))

		require.True(t, yesUnder(p.Context(), t, db, text.take))
		lk, err = lockctx.Acquire(p.Context(), db, key)
		require.NoError(t, err, "the session has it already")
		require.NoError(t, lk.Close())
		require.False(t, out.try(key), "what was taken by text is to be released by text")
		require.True(t, yesUnder(p.Context(), t, db, text.release))
		require.True(t, out.try(key))

		lk, err = lockctx.Acquire(p.Context(), db, key)
		require.NoError(t, err)
		require.NoError(t, p.Close())
		require.ErrorIs(t, lk.Err(), lockctx.ErrReleased, "it lived on the session")
		require.True(t, out.try(key))
		require.ErrorIs(t, lk.Close(), lockctx.ErrReleased)
	})
}

func TestAPinIsNoLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s)
		p := pin(t, db)
		_, found := lockctx.FromContext(p.Context())
		require.False(t, found)
		require.NoError(t, p.Close())

		lk := acquire(t, db, dbtest.Key(t))
		p, err := lockctx.Pin(lk.Context(), db)
		require.NoError(t, err)
		around, found := lockctx.FromContext(p.Context())
		require.True(t, found)
		require.Same(t, lk, around)
		require.NotEqual(t, sessionID(t, s, db, lk), askID(p.Context(), t, s, db), "it has a session of its own")
		require.NoError(t, lk.Close())
		require.ErrorIs(t, p.Context().Err(), context.Canceled, "its context is a child of the lock's")
		require.NoError(t, p.Close())
	})
}

func TestUnderAPinALockAroundItIsADeadlockAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, key := open(t, s), dbtest.Key(t)
		all, err := lockctx.AcquireAll(testCtx(t), db, []string{key + "/1", key + "/2"})
		require.NoError(t, err)
		p, err := lockctx.Pin(all.Context(), db)
		require.NoError(t, err)
		under, err := lockctx.Acquire(p.Context(), db, key+"/3")
		require.NoError(t, err)
		inner, err := lockctx.Pin(under.Context(), db)
		require.NoError(t, err)
		for _, n := range []string{"/1", "/2", "/3"} {
			_, err := lockctx.Acquire(inner.Context(), db, key+n)
			require.ErrorIs(t, err, lockctx.ErrDeadlock, n)
			_, err = lockctx.AcquireAll(inner.Context(), db, []string{key + "/0", key + n})
			require.ErrorIs(t, err, lockctx.ErrDeadlock, n)
		}
		_, err = lockctx.TryAcquire(p.Context(), db, key+"/3")
		require.ErrorIs(t, err, lockctx.ErrNotAcquired, "not under the context of who has it, but beside it")
		for _, c := range []interface{ Close() error }{inner, under} {
			require.NoError(t, c.Close())
		}
		lk, err := lockctx.Acquire(p.Context(), db, key+"/3")
		require.NoError(t, err)
		for _, c := range []interface{ Close() error }{lk, p, all} {
			require.NoError(t, c.Close())
		}
	})
}

func TestWhereTextsAreRefusedAPinIsTheWay(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s, driver.WithRawLocks(driver.RawRefuse))
		text := rawSQLFor(t, s, dbtest.Key(t))
		require.ErrorContains(t, second(db.ExecContext(testCtx(t), text.take)), "lockctx.Pin")
		p := pin(t, db)
		require.True(t, yesUnder(p.Context(), t, db, text.take))
		require.True(t, yesUnder(p.Context(), t, db, text.release))
		require.NoError(t, p.Close())
	})
}

func TestAPinWaitsForOneOfMaxSessions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s, driver.WithMaxSessions(1))
		first := pin(t, db)
		ctx, cancel := context.WithTimeout(testCtx(t), time.Second)
		defer cancel()
		_, err := lockctx.Pin(ctx, db)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "lockdb_max_sessions")
		_, err = lockctx.TryAcquire(testCtx(t), db, dbtest.Key(t))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)

		got := make(chan *lockctx.Pinned, 1)
		go func() {
			p, _ := lockctx.Pin(testCtx(t), db)
			got <- p
		}()
		require.NoError(t, first.Close())
		p := <-got
		require.NotNil(t, p)
		require.NoError(t, p.Close())
		require.NoError(t, acquire(t, db, dbtest.Key(t)).Close())
	})
}

func TestAPinIsRefusedWhereSessionLocksAre(t *testing.T) {
	db := open(t, ownPgBouncer(t))
	_, err := lockctx.Pin(testCtx(t), db)
	require.ErrorIs(t, err, lockctx.ErrUnsupported)
	require.ErrorContains(t, err, "PgBouncer")
}
