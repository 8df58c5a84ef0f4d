package lockctx_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// journal is what a logger wrote.
type journal struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

func (j *journal) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: level}))
}

type entry struct {
	Level, Msg, Key, Error string
	Session                int64
	Held, Waited           time.Duration
}

func (j *journal) entries(t testing.TB) (entries []entry) {
	t.Helper()
	for line := range strings.Lines(j.text()) {
		var e entry
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		entries = append(entries, e)
	}
	return entries
}

func (j *journal) says(t testing.TB, lines ...string) {
	t.Helper()
	said := func() (said []string) {
		for _, e := range j.entries(t) {
			said = append(said, e.Level+" "+strings.TrimPrefix(e.Msg, "lockdb: "))
		}
		return said
	}
	for deadline := time.Now().Add(promptly); len(said()) < len(lines) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	require.Equal(t, lines, said())
}

func TestTheLogTellsDebugOfTheUsualAndWarnOfTheRest(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		var j journal
		db, key, out := open(t, s, driver.WithLogger(j.logger(slog.LevelDebug))), dbtest.Key(t), newOutsider(t, s)
		lk := acquire(t, db, key)
		id := sessionID(t, s, db, lk)
		require.NoError(t, lk.Close())
		j.says(t, "DEBUG lock acquired", "DEBUG lock released")
		for _, e := range j.entries(t) {
			require.Equal(t, key, e.Key)
			require.Equal(t, id, e.Session)
			require.Empty(t, e.Error)
			require.Positive(t, e.Held+e.Waited)
		}

		require.True(t, out.take(key+":2"))
		_, err := lockctx.Acquire(testCtx(t), db, key+":2", lockctx.WithTimeout(time.Second))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		require.Equal(t, err.Error(), j.entries(t)[3].Error)

		lk = acquire(t, db, key)
		_, err = db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		err = lk.Close()
		require.Error(t, err)
		require.Equal(t, err.Error(), j.entries(t)[5].Error)

		lk = acquire(t, db, key)
		s.KillSession(t, sessionID(t, s, db, lk))
		requireLost(t, lk)
		j.says(t, "DEBUG lock acquired", "DEBUG lock released", "DEBUG waiting for a lock", "DEBUG lock not acquired",
			"DEBUG lock acquired", "WARN lock closed with work under way", "DEBUG lock acquired", "WARN lock lost")
		lost := j.entries(t)[7]
		require.Equal(t, lk.Err().Error(), lost.Error)
		require.Equal(t, key, lost.Key)

		acquire(t, db, key)
		require.NoError(t, db.Close())
		require.Equal(t, "DEBUG", j.entries(t)[9].Level, "the end of the *sql.DB is nothing to warn of")
	})
}

// The network goes silent under the release: its answer does not come.
func TestTheLogWarnsOfASessionThatCouldNotBeReleasedInTime(t *testing.T) {
	t.Parallel() // it waits for most of its time
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		var j journal
		rec, relay, key := &recorder{}, s.Relay(t), dbtest.Key(t)
		rec.key = key
		db := openDSN(t, relay.DSN(), driver.WithLogger(j.logger(slog.LevelWarn)), driver.WithObserver(rec))
		lk := acquire(t, db, key)
		relay.CutForGood()
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		rec.tells(t, "acquired", "lost")
		j.says(t, "WARN lock lost")
	})
}

func TestWithoutALoggerTheDefaultOfTheMomentIsUsed(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	db, key := open(t, s, driver.WithLogger(nil)), dbtest.Key(t)
	lk := acquire(t, db, key)
	var j journal
	old := slog.Default()
	defer slog.SetDefault(old)
	slog.SetDefault(j.logger(slog.LevelWarn))
	s.KillSession(t, sessionID(t, s, db, lk))
	requireLost(t, lk)
	j.says(t, "WARN lock lost")
}

func TestNoMessageAndNoEventShowsThePassword(t *testing.T) {
	const secret = "s3cr3t-0f-the-t3st"
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		var j journal
		rec := &recorder{}
		dsn := "nobody:" + secret + "@tcp(" + s.Addr() + ")/nowhere"
		if !s.IsMySQL() {
			u, err := url.Parse(s.DSN())
			require.NoError(t, err)
			u.User, u.Path = url.UserPassword("nobody", secret), "/nowhere"
			dsn = u.String()
		}
		db := openDSN(t, dsn, driver.WithLogger(j.logger(slog.LevelDebug)), driver.WithObserver(rec))
		_, err := lockctx.Acquire(testCtx(t), db, dbtest.Key(t))
		require.Error(t, err)
		require.NotContains(t, rec.only(t, driver.EventRefused).Err.Error(), secret)
		require.NotContains(t, j.text(), secret)
		j.says(t, "DEBUG lock not acquired")
	})
}

// badObserver panics at every event, and so does badHandler.
type (
	badObserver struct{}
	badHandler  struct{ slog.Handler }
)

func (badObserver) LockEvent(e driver.Event) { panic("observer of " + string(e.Kind)) }

func (badHandler) Handle(context.Context, slog.Record) error { panic("handler") }

func TestAnObserverThatPanicsCostsNoLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		var j journal
		db := open(t, s, driver.WithObserver(badObserver{}), driver.WithLogger(j.logger(slog.LevelWarn)))
		locksUnderFire(t, s, db)
		require.Contains(t, j.text(), "the observer panicked")
		require.Contains(t, j.text(), "observer of handed on")
		require.Contains(t, j.text(), "LockEvent", "the stack")
	})
}

func TestALoggerThatPanicsCostsNoLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		var j journal
		bad := slog.New(badHandler{j.logger(slog.LevelDebug).Handler()})
		locksUnderFire(t, s, open(t, s, driver.WithObserver(badObserver{}), driver.WithLogger(bad)))
	})
}

// locksUnderFire does everything that is told of, and checks that all of it works.
func locksUnderFire(t *testing.T, s *dbtest.Server, db *sql.DB) {
	key := dbtest.Key(t)
	lk := acquire(t, db, key)
	_, err := lockctx.Acquire(lk.Context(), db, key+":2")
	require.NoError(t, err)
	_, err = lockctx.TryAcquire(testCtx(t), db, key)
	require.ErrorIs(t, err, lockctx.ErrNotAcquired)
	waiting := waitersOf(testCtx(t), t, db, key, 5, 5)
	for range 5 {
		require.NoError(t, lk.Close())
		g := within(t, waiting, promptly, "a grant")
		require.NoError(t, g.err)
		lk = g.lk
	}
	s.KillSession(t, sessionID(t, s, db, lk))
	requireLost(t, lk)
	require.NoError(t, acquire(t, db, key).Close())
	require.Eventually(t, func() bool { return stats(t, db).Lost == 1 }, promptly, time.Millisecond)
	require.Zero(t, stats(t, db).LocksHeld)
	require.Zero(t, stats(t, db).Waiters)
	require.NoError(t, db.Close())
}
