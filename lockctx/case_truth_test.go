package lockctx_test

import (
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// eachMySQL runs fn on the two servers that have GET_LOCK.
func eachMySQL(t *testing.T, fn func(t *testing.T, s *dbtest.Server)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		if s.IsMySQL() {
			fn(t, s)
		}
	})
}

// stub has a server grant every lock to everybody, as CockroachDB does.
var stub = func() func(string) (string, error) {
	getLock := regexp.MustCompile(`(GET_LOCK|RELEASE_LOCK)\([^)]*\)`)
	advisory := regexp.MustCompile(`pg_(try_advisory_lock|advisory_unlock)\(\$1\)`)
	return func(query string) (string, error) {
		query = getLock.ReplaceAllString(query, "1")
		return advisory.ReplaceAllString(query, "$$1::bigint IS NOT NULL"), nil
	}
}()

func TestC50_ANodeOfAGaleraClusterIsRefused(t *testing.T) {
	eachMySQL(t, func(t *testing.T, s *dbtest.Server) {
		db, r := openAs(t, s, func(query string) (string, error) {
			if strings.Contains(query, "'wsrep_on'") {
				return "SELECT 'wsrep_on', 'ON'", nil
			}
			return query, nil
		})
		requireUnsupported(t, db, "Galera", "wsrep_on", "connect to a single primary")
		for _, query := range r.sent() {
			require.NotContains(t, query, "GET_LOCK", "a cluster may take it for a lock")
		}
	})
}

func TestC50_OneOfSeveralPrimariesOfAGroupIsRefused(t *testing.T) {
	eachMySQL(t, func(t *testing.T, s *dbtest.Server) {
		db, _ := openAs(t, s, func(query string) (string, error) {
			if strings.Contains(query, "'group_replication_single_primary_mode'") {
				return "SELECT 'group_replication_single_primary_mode', 'OFF'", nil
			}
			return query, nil
		})
		requireUnsupported(t, db, "group_replication_single_primary_mode", "connect to a single primary")
	})
}

func TestC50_AServerThatRefusesGetLockIsNamedAsOneWithoutLocks(t *testing.T) {
	refusals := []*mysql.MySQLError{
		{Number: 1235, Message: "This version of MariaDB doesn't yet support 'GET_LOCK in cluster (WSREP_ON=ON)'"},
		{Number: 1105, Message: "Percona-XtraDB-Cluster prohibits use of GET_LOCK with pxc_strict_mode = ENFORCING"},
		{Number: 1305, Message: "FUNCTION test.GET_LOCK does not exist"},
	}
	eachMySQL(t, func(t *testing.T, s *dbtest.Server) {
		for _, refusal := range refusals {
			db, r := openAs(t, s, func(query string) (string, error) {
				if strings.Contains(query, "GET_LOCK") {
					return "", refusal
				}
				return query, nil
			})
			requireUnsupported(t, db, "connect to a single primary", refusal.Message)

			// One that begins to refuse later, or was not tested, is told at the lock itself.
			refuse := r.rewrite
			db, r = openAs(t, s, asItIs)
			require.NoError(t, acquire(t, db, dbtest.Key(t)).Close())
			r.become(refuse)
			_, err := lockctx.Acquire(testCtx(t), db, dbtest.Key(t))
			require.ErrorIs(t, err, lockctx.ErrUnsupported)
			require.ErrorContains(t, err, "connect to a single primary")
			var answer *mysql.MySQLError
			require.ErrorAs(t, err, &answer)
			require.Equal(t, refusal.Number, answer.Number)
		}
	})
}

func TestC51_AServerThatGrantsALockTwiceIsRefused(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, _ := openAs(t, s, stub)
		requireUnsupported(t, db, "two connections were granted the same lock", "connect directly")
	})
}

func TestC51_CockroachDBIsRefusedByItsName(t *testing.T) {
	db, _ := openAs(t, dbtest.Shared(t, dbtest.Postgres), replacing("version()", "'CockroachDB CCL v24.1.0'"))
	requireUnsupported(t, db, "CockroachDB", "connect to a PostgreSQL server")
}

func TestC51_AServerThatKnowsLittleIsAskedLittle(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	for _, missing := range []string{"pg_is_in_recovery", "set_config", "inet_server_addr"} {
		db, _ := openAs(t, s, replacing(missing, "no_such_function"))
		require.NoError(t, acquire(t, db, dbtest.Key(t)).Close(), missing)
	}
	eachMySQL(t, func(t *testing.T, s *dbtest.Server) {
		for _, missing := range []string{"@@innodb_read_only", "SHOW GLOBAL", "IS_USED_LOCK", "SET SESSION"} {
			db, _ := openAs(t, s, replacing(missing, "@@no_such_variable "))
			require.NoError(t, acquire(t, db, dbtest.Key(t)).Close(), missing)
		}
	})
}

func TestC51_NoRowIsNoGrant(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for _, fromStart := range []bool{true, false} {
			db, r := openAs(t, s, asItIs)
			if !fromStart {
				require.NoError(t, acquire(t, db, dbtest.Key(t)).Close())
			}
			r.become(replacing(", 0)", ", 0) FROM DUAL WHERE FALSE", "pg_try_advisory_lock($1)", "pg_try_advisory_lock($1) WHERE false"))
			lk, err := lockctx.Acquire(testCtx(t), db, dbtest.Key(t))
			require.ErrorContains(t, err, "no row")
			require.Nil(t, lk)
		}
	})
}

func TestC51_TheTestIsMadeOncePerServer(t *testing.T) {
	const n = 8
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, r := openAs(t, s, asItIs, driver.WithMaxIdleSessions(0))
		key, inside := dbtest.Key(t), make(chan struct{})
		var held, all sync.WaitGroup
		held.Add(n)
		for i := range n {
			all.Go(func() {
				lk, err := lockctx.Acquire(testCtx(t), db, key+string(rune('a'+i)))
				held.Done()
				if err != nil {
					t.Error(err)
					return
				}
				<-inside
				if err := lk.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		held.Wait()
		require.Equal(t, n+1, r.dialled())
		close(inside)
		all.Wait()
	})
}

func TestC51_TheTestNeedsNoSecondConnectionWhereThereIsNone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, r := openAs(t, s, asItIs, driver.WithMaxSessions(1))
		require.NoError(t, acquire(t, db, dbtest.Key(t)).Close())
		require.Equal(t, 1, r.dialled(), "the limit holds for the test too")

		db = openDSN(t, limitedUser(t, s, 1))
		require.NoError(t, acquire(t, db, dbtest.Key(t)).Close())
	})
}

func TestC37_WhereASecondLockDropsTheFirstOnlyOneIsTaken(t *testing.T) {
	old := map[dbtest.Kind]string{dbtest.MySQL: "'5.6.51-log'", dbtest.MariaDB: "'5.5.5-10.0.1-MariaDB'"}
	eachMySQL(t, func(t *testing.T, s *dbtest.Server) {
		db, _ := openAs(t, s, replacing("VERSION()", old[s.Kind()]))
		key, out := dbtest.Key(t), newOutsider(t, s)
		lk := acquire(t, db, key)
		other := acquire(t, db, key+":2")
		require.NotEqual(t, sessionID(t, s, db, lk), sessionID(t, s, db, other))
		require.NoError(t, other.Close())

		again, err := lockctx.Acquire(lk.Context(), db, key)
		require.NoError(t, err, "a re-entry asks nothing of the server")
		require.NoError(t, again.Close())
		_, err = lockctx.Acquire(lk.Context(), db, key+":2")
		require.ErrorIs(t, err, lockctx.ErrUnsupported)
		require.ErrorContains(t, err, "drops the first")
		require.ErrorContains(t, err, "5.7.5")
		var got any
		err = db.QueryRowContext(lk.Context(), "SELECT GET_LOCK('"+lockName(t, key+":3")+"', 0)").Scan(&got)
		require.ErrorIs(t, err, lockctx.ErrUnsupported)
		require.False(t, out.try(key))
		require.NoError(t, lk.Close())

		_, err = lockctx.AcquireAll(testCtx(t), db, []string{key, key + ":2"})
		require.ErrorIs(t, err, lockctx.ErrUnsupported)
		require.True(t, out.try(key))
		one, err := lockctx.AcquireAll(testCtx(t), db, []string{key, key})
		require.NoError(t, err)
		require.NoError(t, one.Close())
	})
}

func TestC22_AReplicaIsRefused(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		ways := []string{"@@read_only", "@@innodb_read_only"}
		if !s.IsMySQL() {
			ways = []string{"pg_is_in_recovery()"}
		}
		for _, way := range ways {
			t.Run(way, func(t *testing.T) {
				t.Parallel()
				db, r := openAs(t, s, replacing(way, "1 = 1"))
				requireUnsupported(t, db, "connect to the primary")
				r.become(asItIs)
				lk := acquireOnce(t, db, dbtest.Key(t))
				require.NoError(t, lk.Close())
			})
		}
	})
}
