package lockctx_test

import (
	"context"
	"database/sql"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestAServerThatIsDownIsTheDriversErrorAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := openDSN(t, s.DSNAt(deadAddr))
		before := goleak.IgnoreCurrent()
		for name, acquire := range map[string]func() error{
			"Acquire": func() error { _, err := lockctx.Acquire(context.Background(), db, "the-key"); return err },
			"TryAcquire": func() error {
				_, err := lockctx.TryAcquire(context.Background(), db, "the-key")
				return err
			},
			"WithTimeout": func() error {
				_, err := lockctx.Acquire(context.Background(), db, "the-key", lockctx.WithTimeout(time.Minute))
				return err
			},
			"InTx": func() error { return lockctx.InTx(context.Background(), db, "the-key", nil, nil) },
		} {
			start := time.Now()
			err := acquire()
			require.Less(t, time.Since(start), promptly, name)
			var op *net.OpError
			require.ErrorAs(t, err, &op, name)
			require.ErrorContains(t, err, "the-key")
			require.NotErrorIs(t, err, lockctx.ErrNotAcquired)
		}
		goleak.VerifyNone(t, before)
	})
}

func TestAServerThatDoesNotAnswerIsNotTakenForALockThatIsHeld(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		relay := s.Relay(t)
		relay.Cut()
		silent := relay.DSN()

		t.Run("the DSN's timeout", func(t *testing.T) {
			db := openDSN(t, withParam(s, silent, "timeout=300ms&readTimeout=300ms", "connect_timeout=1"))
			start := time.Now()
			_, err := lockctx.Acquire(testCtx(t), db, "the-key")
			require.Less(t, time.Since(start), promptly)
			require.ErrorContains(t, err, "the-key")
			require.NotErrorIs(t, err, lockctx.ErrNotAcquired)
			require.NotContains(t, err.Error(), "held")
		})
		db := openDSN(t, silent)
		t.Run("the context's deadline", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := lockctx.Acquire(ctx, db, "the-key")
			require.Less(t, time.Since(start), promptly)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotContains(t, err.Error(), "held")
		})
		t.Run("WithTimeout", func(t *testing.T) {
			start := time.Now()
			_, err := lockctx.Acquire(testCtx(t), db, "the-key", lockctx.WithTimeout(200*time.Millisecond))
			require.Less(t, time.Since(start), promptly)
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
			require.NotContains(t, err.Error(), "held")
		})
		relay.Heal()
		require.NoError(t, acquire(t, db, "the-key").Close())
	})
}

func TestARestartOfTheServerBetweenTwoAcquiresGoesUnnoticed(t *testing.T) {
	for _, k := range []dbtest.Kind{dbtest.MySQL, dbtest.MariaDB, dbtest.Postgres} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			s := dbtest.Private(t, k)
			inner, err := innerConnector(s)
			require.NoError(t, err)
			c, err := driver.NewConnector(inner, driver.WithMaxIdleSessions(4)) // no socket is watched here
			require.NoError(t, err)
			unwatched := sql.OpenDB(c)
			defer func() { require.NoError(t, unwatched.Close()) }()
			dbs := []*sql.DB{open(t, s, driver.WithMaxIdleSessions(4)), unwatched}
			keep := func() {
				for _, db := range dbs {
					var lks []*lockctx.Lock
					for range 4 {
						lks = append(lks, acquire(t, db, dbtest.Key(t)))
					}
					for _, lk := range lks {
						require.NoError(t, lk.Close())
					}
				}
			}
			keep() // four idle sessions each
			s.Restart(t)
			keep()
			s.Kill(t)
			s.Start(t)
			for _, db := range dbs {
				require.NoError(t, lockctx.InTx(testCtx(t), db, dbtest.Key(t), nil,
					func(ctx context.Context, tx *sql.Tx) error { return tx.QueryRowContext(ctx, "SELECT 1").Err() }))
			}
		})
	}
}

func TestAHolderAndAWaiterLearnOfARestartOfTheServer(t *testing.T) {
	for _, k := range []dbtest.Kind{dbtest.MySQL, dbtest.MariaDB, dbtest.Postgres} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			s := dbtest.Private(t, k)
			db, key := open(t, s), dbtest.Key(t)
			lk := acquire(t, open(t, s), key)
			waiter := waitFor(testCtx(t), t, db, key)
			s.Kill(t)
			requireLost(t, lk)
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
			g := within(t, waiter, promptly, "the waiter's answer")
			require.Error(t, g.err, "the server is down")
			require.NotErrorIs(t, g.err, lockctx.ErrNotAcquired)
			require.NotErrorIs(t, g.err, lockctx.ErrLost, "it never had the lock")
			s.Start(t)
			require.NoError(t, acquire(t, db, key).Close())
		})
	}
}

// deadAddr is a "host:port" at which nobody listens, and that no server of another test can be given.
const deadAddr = "127.0.0.1:1"

// withParam adds a parameter to a DSN: mysql's or postgres's, or none if that is "".
func withParam(s *dbtest.Server, dsn, mysql, postgres string) string {
	param := mysql
	if !s.IsMySQL() {
		param = postgres
	}
	switch {
	case param == "":
		return dsn
	case strings.Contains(dsn, "?"):
		return dsn + "&" + param
	}
	return dsn + "?" + param
}
