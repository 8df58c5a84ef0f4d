package lockctx_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// limitedUser is the DSN of a user of the test's own who may have so many connections.
func limitedUser(t testing.TB, s *dbtest.Server, connections int) string {
	t.Helper()
	name := "u" + dbtest.Key(t)
	name = "u" + name[strings.LastIndex(name, ":")+1:]
	admin := s.Open(t)
	run := func(text string) {
		_, err := admin.Exec(text)
		require.NoError(t, err)
	}
	if s.IsMySQL() {
		run(fmt.Sprintf("CREATE USER %s IDENTIFIED BY 'secret' WITH MAX_USER_CONNECTIONS %d", name, connections))
		run(fmt.Sprintf("GRANT ALL ON *.* TO %s", name))
		t.Cleanup(func() { run("DROP USER " + name) })
		cfg, err := mysql.ParseDSN(s.DSN())
		require.NoError(t, err)
		cfg.User, cfg.Passwd = name, "secret"
		return cfg.FormatDSN()
	}
	run(fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'secret' CONNECTION LIMIT %d", name, connections))
	t.Cleanup(func() { run("DROP ROLE " + name) })
	u, err := url.Parse(s.DSN())
	require.NoError(t, err)
	u.User = url.UserPassword(name, "secret")
	return u.String()
}

// openBare opens the DSN with the bare driver.
func openBare(t testing.TB, s *dbtest.Server, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(s.Driver(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// acquireOnce waits until the lock is to be had, which takes less than half the default TTL.
func acquireOnce(t testing.TB, db *sql.DB, key string) (lk *lockctx.Lock) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		lk, err = lockctx.Acquire(context.Background(), db, key)
		return err == nil
	}, promptly, 50*time.Millisecond)
	return lk
}
