package lockctx_test

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// pingTTL is long enough for a busy machine not to lose a lock by being late.
const pingTTL = 2 * time.Second

// awaitPings waits for three signs of life to be asked for, and returns all that was sent meanwhile.
func awaitPings(t testing.TB, r *rewriter, isPing func(query string) bool) (sent []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		sent = append(sent, r.sent()...)
		pings := 0
		for _, query := range sent {
			if isPing(query) {
				pings++
			}
		}
		return pings >= 3
	}, 2*promptly, 10*time.Millisecond)
	return sent
}

// releaseBehind releases the lock on its own session without lockdb's knowing.
func releaseBehind(t testing.TB, lk *lockctx.Lock) {
	t.Helper()
	c, err := lk.Conn(context.Background())
	require.NoError(t, err)
	require.NoError(t, c.Raw(func(dc any) error {
		return rawExec(context.Background(), dc, "DO RELEASE_ALL_LOCKS()", "SELECT pg_advisory_unlock_all()")
	}))
	require.NoError(t, c.Close())
}

func TestC52_ALockReleasedBehindLockdbsBackIsToldAsLost(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key, out := open(t, s, driver.WithTTL(pingTTL)), dbtest.Key(t), newOutsider(t, s)
		lk := acquire(t, db, key)
		releaseBehind(t, lk)
		require.True(t, out.try(key))
		within(t, lk.Context().Done(), promptly, "the ping that asks for the lock")
		require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
		require.ErrorContains(t, lk.Err(), "the server says")
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)

		lk = acquire(t, db, key)
		releaseBehind(t, lk)
		require.True(t, out.take(key))
		defer out.release(key)
		requireLost(t, lk)
		require.ErrorContains(t, lk.Err(), "the server says")
	})
}

func TestC52_ANestedLockReleasedBehindLockdbsBackIsToldAsLost(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s, driver.WithTTL(pingTTL)), dbtest.Key(t)
		keys := make([]string, 100) // more than one ping asks for
		for i := range keys {
			keys[i] = fmt.Sprint(key, ":", i)
		}
		lk, err := lockctx.AcquireAll(testCtx(t), db, keys)
		require.NoError(t, err)
		time.Sleep(pingTTL) // several pings
		require.NoError(t, lk.Err())
		c, err := lk.Conn(testCtx(t))
		require.NoError(t, err)
		require.NoError(t, c.Raw(func(dc any) error {
			last := keys[70]
			return rawExec(context.Background(), dc, "DO RELEASE_LOCK('"+lockName(t, last)+"')", fmt.Sprintf("SELECT pg_advisory_unlock(%d)", lockID(t, last)))
		}))
		require.NoError(t, c.Close())
		requireLost(t, lk)
	})
}

func TestC52_UseOfTheSessionDoesNotKeepTheServerFromBeingAsked(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s, driver.WithTTL(pingTTL)), dbtest.Key(t)
		lk := acquire(t, db, key)
		releaseBehind(t, lk)
		for start := time.Now(); lk.Err() == nil; time.Sleep(5 * time.Millisecond) {
			require.Less(t, time.Since(start), promptly)
			var one int
			_ = db.QueryRowContext(lk.Context(), "SELECT 1").Scan(&one)
		}
		require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
		require.ErrorContains(t, lk.Err(), "the server says")
	})
}

func TestC52_InATransactionThePingAsksNothing(t *testing.T) {
	begins := map[string]func(context.Context, *sql.DB) (end func() error, err error){
		"BeginTx": func(ctx context.Context, db *sql.DB) (func() error, error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return nil, err
			}
			return tx.Commit, nil
		},
		"BEGIN as text": func(ctx context.Context, db *sql.DB) (func() error, error) {
			_, err := db.ExecContext(ctx, "BEGIN")
			return func() error {
				_, err := db.ExecContext(ctx, "COMMIT")
				return err
			}, err
		},
	}
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for name, begin := range begins {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				db, r := openAs(t, s, asItIs, driver.WithTTL(pingTTL))
				lk := acquire(t, db, dbtest.Key(t))
				end, err := begin(lk.Context(), db)
				require.NoError(t, err)
				r.sent()
				for _, query := range awaitPings(t, r, func(string) bool { return true }) {
					require.Equal(t, "ping", query)
				}
				require.NoError(t, end())
				require.NoError(t, lk.Close())
			})
		}
	})
}

func TestC52_AnErrorOfTheQuestionIsASignOfLife(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, r := openAs(t, s, asItIs, driver.WithTTL(pingTTL))
		lk := acquire(t, db, dbtest.Key(t))
		r.become(replacing("IS_USED_LOCK", "no_such_function", "pg_locks", "no_such_table", "@@read_only", "@@no_such_variable"))
		r.sent()
		awaitPings(t, r, func(query string) bool {
			return strings.Contains(query, "IS_USED_LOCK") || strings.Contains(query, "pg_locks")
		})
		require.NoError(t, lk.Err())
		require.NoError(t, lk.Close())
	})
}

func TestC22_AServerThatBecomesReadOnlyLosesItsLocks(t *testing.T) {
	for _, kind := range []dbtest.Kind{dbtest.MySQL, dbtest.MariaDB, dbtest.Postgres} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := dbtest.Private(t, kind)
			admin := s.Open(t)
			set := func(on string) {
				for _, text := range readOnly(s, on) {
					_, err := admin.Exec(text)
					require.NoError(t, err)
				}
			}
			db, key := open(t, s, driver.WithTTL(pingTTL)), dbtest.Key(t)
			lk, idle := acquire(t, db, key), acquire(t, db, key+":2")
			require.NoError(t, idle.Close())
			set("ON")
			requireLost(t, lk)
			require.ErrorContains(t, lk.Err(), "read-only")
			requireUnsupported(t, db, "read-only", "connect to the primary")
			set("OFF")
			require.NoError(t, acquireOnce(t, db, key).Close())
		})
	}
}

// readOnly is what an administrator or a failover tool does to a primary.
func readOnly(s *dbtest.Server, on string) []string {
	if s.IsMySQL() {
		return []string{"SET GLOBAL read_only = " + on}
	}
	return []string{"ALTER SYSTEM SET default_transaction_read_only = " + on, "SELECT pg_reload_conf()"}
}

func TestC22_WhatASessionChoosesForItselfIsNotTheServers(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	db, key := openDSN(t, s.DSN()+"&default_transaction_read_only=on", driver.WithTTL(pingTTL)), dbtest.Key(t)
	lk := acquire(t, db, key)
	_, err := db.ExecContext(lk.Context(), "SET default_transaction_read_only = off")
	require.NoError(t, err)
	_, err = db.ExecContext(lk.Context(), "SET default_transaction_read_only = on")
	require.NoError(t, err)
	time.Sleep(pingTTL) // several pings
	require.NoError(t, lk.Err())
	require.NoError(t, lk.Close())
}

// plain are the forms that ProxySQL and Vitess know: one call and nothing else.
var plain = regexp.MustCompile(`^SELECT (GET_LOCK\('[a-z0-9_.:/#-]+', \d+\)|RELEASE_LOCK\('[a-z0-9_.:/#-]+'\)|IS_USED_LOCK\('[a-z0-9_.:/#-]+'\)|` +
	`pg_try_advisory_lock\(\$1\)|pg_advisory_unlock\(\$1\)|RELEASE_ALL_LOCKS\(\)|pg_advisory_unlock_all\(\))$`)

func TestC47_LockdbsOwnStatementsAreInThePlainestForm(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, r := openAs(t, s, asItIs, driver.WithTTL(pingTTL))
		key, out := dbtest.Key(t), newOutsider(t, s)
		lk := acquire(t, db, key)
		sent := awaitPings(t, r, func(query string) bool {
			return strings.Contains(query, "IS_USED_LOCK") || strings.Contains(query, "pg_locks")
		})
		nested, err := lockctx.Acquire(lk.Context(), db, key+":2")
		require.NoError(t, err)
		require.NoError(t, nested.Close())
		require.NoError(t, lk.Close())
		require.True(t, out.take(key))
		_, err = lockctx.TryAcquire(testCtx(t), db, key)
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		_, err = lockctx.Acquire(testCtx(t), db, key, lockctx.WithTimeout(1200*time.Millisecond))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		out.release(key)
		kinds := make(map[string]bool)
		for _, query := range append(sent, r.sent()...) {
			if !strings.Contains(query, "LOCK(") && !strings.Contains(query, "advisory_") || strings.HasPrefix(query, "SET LOCAL lock_timeout") {
				continue
			}
			require.Regexp(t, plain, query)
			kinds[strings.SplitN(query, "(", 2)[0]] = true
		}
		want := map[string]bool{"SELECT GET_LOCK": true, "SELECT RELEASE_LOCK": true, "SELECT IS_USED_LOCK": true}
		if !s.IsMySQL() {
			want = map[string]bool{"SELECT pg_try_advisory_lock": true, "SELECT pg_advisory_unlock": true}
		}
		require.Equal(t, want, kinds)
	})
}
