package lockctx_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// shortTimeouts are DSN parameters that end a statement before a wait for a
// lock at the server would end.
func shortTimeouts(k dbtest.Kind) map[string]string {
	switch k {
	case dbtest.MySQL:
		return map[string]string{
			"the driver's readTimeout": "readTimeout=800ms",
			"max_execution_time":       "max_execution_time=300",
			"both":                     "readTimeout=800ms&max_execution_time=300",
		}
	case dbtest.MariaDB:
		return map[string]string{
			"the driver's readTimeout": "readTimeout=800ms",
			"max_statement_time":       "max_statement_time=0.3",
		}
	}
	return map[string]string{
		"statement_timeout": "statement_timeout=300",
		"lock_timeout":      "lock_timeout=100",
		"both":              "statement_timeout=300&lock_timeout=100",
	}
}

func TestTheTimeoutsOfStatementsInTheDSNAreNotThoseOfLocks(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, s *dbtest.Server, param string){
		"a wait":                    waitBeyondTimeouts,
		"a wait for a further lock": waitForAFurtherBeyondTimeouts,
		"a lock that is held":       holdBeyondTimeouts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				t.Parallel()
				for name, param := range shortTimeouts(s.Kind()) {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						test(t, s, param)
					})
				}
			})
		})
	}
	t.Run("a wait with a timeout that is not known", func(t *testing.T) {
		t.Parallel()
		eachMySQL(t, func(t *testing.T, s *dbtest.Server) {
			t.Parallel()
			waitBeyondATimeoutThatIsNotKnown(t, s)
		})
	})
}

func waitBeyondTimeouts(t *testing.T, s *dbtest.Server, param string) {
	relay, out, key := s.Relay(t), newOutsider(t, s), dbtest.Key(t)
	db := openDSN(t, withParam(s, relay.DSN(), param, param))
	require.NoError(t, acquire(t, db, key).Close())
	opened := relay.Accepted()
	requireWaitsWell(t, db, out, key)
	require.LessOrEqual(t, relay.Accepted()-opened, int64(1), "sessions died of the wait")
}

func waitForAFurtherBeyondTimeouts(t *testing.T, s *dbtest.Server, param string) {
	db, out, key := openDSN(t, withParam(s, s.DSN(), param, param)), newOutsider(t, s), dbtest.Key(t)
	outer := acquire(t, db, key+"/outer")
	require.True(t, out.take(key))
	got := async(func() error {
		lk, err := lockctx.Acquire(outer.Context(), db, key)
		if err == nil {
			err = lk.Close()
		}
		return err
	})
	select {
	case err := <-got:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(severalSlices):
	}
	require.NoError(t, outer.Err(), "it was lost to the wait")
	out.release(key)
	require.NoError(t, within(t, got, promptly, "the further lock"))
	require.NoError(t, outer.Close())
}

// A connector of the user's does not tell its timeouts.
func waitBeyondATimeoutThatIsNotKnown(t *testing.T, s *dbtest.Server) {
	relay, out, key := s.Relay(t), newOutsider(t, s), dbtest.Key(t)
	cfg, err := mysql.ParseDSN(relay.DSN())
	require.NoError(t, err)
	cfg.ReadTimeout = 800 * time.Millisecond
	inner, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	c, err := driver.NewConnector(inner)
	require.NoError(t, err)
	db := sql.OpenDB(c)
	defer func() { require.NoError(t, db.Close()) }()
	for range 2 {
		requireWaitsWell(t, db, out, key)
	}
	require.LessOrEqual(t, relay.Accepted(), int64(6), "sessions died of waits over and over")
}

func holdBeyondTimeouts(t *testing.T, s *dbtest.Server, param string) {
	db := openDSN(t, withParam(s, s.DSN(), param, param), driver.WithTTL(2*time.Second))
	lk := acquire(t, db, dbtest.Key(t))
	tx, err := db.BeginTx(lk.Context(), nil)
	require.NoError(t, err)
	select {
	case <-lk.Context().Done():
	case <-time.After(3500 * time.Millisecond):
	}
	require.NoError(t, lk.Err())
	require.NoError(t, tx.Commit())
	require.NoError(t, lk.Close())
}

// severalSlices is longer than two waits at the server take, and any of the timeouts above.
const severalSlices = 2500 * time.Millisecond

// requireWaitsWell waits for a lock that is held for several slices, and has it
// soon after it was released: not at the end of a slice, as one who asks again.
func requireWaitsWell(t *testing.T, db *sql.DB, out *outsider, key string) {
	t.Helper()
	requireSoon(t, 500*time.Millisecond, func() time.Duration {
		require.True(t, out.take(key))
		waiter := waitFor(testCtx(t), t, db, key)
		select {
		case g := <-waiter:
			t.Fatalf("it did not wait: %v", g.err)
		case <-time.After(severalSlices):
		}
		out.release(key)
		released := time.Now()
		g := within(t, waiter, promptly, "the grant")
		require.NoError(t, g.err)
		require.NoError(t, g.lk.Close())
		return g.at.Sub(released)
	})
}
