package driver_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// withParam adds a parameter to a DSN that dbtest gives.
func withParam(s *dbtest.Server, param string) string {
	name := s.DSN()
	switch {
	case !s.IsMySQL() && !strings.Contains(name, "://"):
		return name + " " + param
	case strings.Contains(name, "?"):
		return name + "&" + param
	}
	return name + "?" + param
}

// useLock takes a lock, runs a statement on its session, and another on the pool.
func useLock(t *testing.T, db *sql.DB) {
	t.Helper()
	ctx := context.Background()
	lk, err := lockctx.Acquire(ctx, db, dbtest.Key(t))
	require.NoError(t, err)
	var one int
	require.NoError(t, db.QueryRowContext(lk.Context(), "SELECT 1").Scan(&one))
	require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(&one))
	require.NoError(t, lk.Close())
}

func TestTheDSNOfTodayOpensOnRealServers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		second := "postgres-lockdb"
		if s.IsMySQL() {
			second = "mysql-lockdb"
		}
		for _, name := range []string{"lockdb", second} {
			for _, dsn := range []string{s.DSN(), withParam(s, "lockdb_ttl=5s")} {
				db, err := sql.Open(name, dsn)
				require.NoError(t, err)
				require.NoError(t, db.Ping())
				useLock(t, db)
				require.NoError(t, db.Close())
			}
		}
	})
}

func TestThePoolWorksBehindAPooler(t *testing.T) {
	s := dbtest.Shared(t, dbtest.PgBouncer)
	db, err := sql.Open("lockdb", withParam(s, "lockdb_pooler=refuse"))
	require.NoError(t, err)
	require.NoError(t, db.Ping())
	require.NoError(t, db.Close())
}

func TestADBACanTellLockSessions(t *testing.T) {
	want := fmt.Sprintf(" %d", os.Getpid())
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		ctx := context.Background()
		db, err := sql.Open("lockdb", s.DSN())
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		lk, err := lockctx.Acquire(ctx, db, dbtest.Key(t))
		require.NoError(t, err)
		defer func() { require.NoError(t, lk.Close()) }()

		query := "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"
		if s.IsMySQL() {
			var on string
			require.NoError(t, db.QueryRowContext(ctx, "SELECT @@performance_schema").Scan(&on))
			if on != "1" {
				return // such a server does not keep connection attributes
			}
			query = "SELECT ATTR_VALUE FROM performance_schema.session_connect_attrs WHERE ATTR_NAME = 'program_name' AND PROCESSLIST_ID = CONNECTION_ID()"
		}
		var got string
		require.NoError(t, db.QueryRowContext(lk.Context(), query).Scan(&got))
		require.True(t, strings.HasPrefix(got, "lockdb ") && strings.HasSuffix(got, want), got)
		if err = db.QueryRowContext(ctx, query).Scan(&got); err == nil {
			require.NotContains(t, got, "lockdb ", "the pool's connections bear the user's name")
		} else {
			require.ErrorIs(t, err, sql.ErrNoRows)
		}
	})
}

type seen struct {
	sqlmw.NullInterceptor
	mu       sync.Mutex // guards connects
	connects int
}

func (s *seen) ConnectorConnect(ctx context.Context, c sqldriver.Connector) (sqldriver.Conn, error) {
	s.mu.Lock()
	s.connects++
	s.mu.Unlock()
	return c.Connect(ctx)
}

func TestAnInterceptorSeesPooledConnectionsAndLockSessions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		var i seen
		c, err := driver.OpenConnector(s.DSN(), driver.WithInterceptor(&i))
		require.NoError(t, err)
		db := sql.OpenDB(c)
		require.NoError(t, db.Ping())
		useLock(t, db)
		require.NoError(t, db.Close())
		require.Equal(t, 3, i.connects, "the pool's, the lock session's, and the second one that tests whether locks exclude")
	})
}

func TestARegisteredConfigurationOnARealServer(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	cfg, err := pgx.ParseConfig(s.DSN())
	require.NoError(t, err)
	name := stdlib.RegisterConnConfig(cfg)
	defer stdlib.UnregisterConnConfig(name)
	db, err := sql.Open("lockdb", name)
	require.NoError(t, err)
	useLock(t, db)
	require.NoError(t, db.Close())
}

func TestNewConnectorOnARealServer(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	cfg, err := pgx.ParseConfig(s.DSN())
	require.NoError(t, err)
	c, err := driver.NewConnector(stdlib.GetConnector(*cfg))
	require.NoError(t, err)
	db := sql.OpenDB(c)
	useLock(t, db)
	require.NoError(t, db.Close())
}
