package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// restricted is a user of the test's own who may do what is granted to him, on a
// database of the test's own.
type restricted struct {
	t     testing.TB
	s     *dbtest.Server
	admin *sql.DB
	name  string
}

func newRestricted(t testing.TB, s *dbtest.Server) *restricted {
	t.Helper()
	key := dbtest.Key(t)
	r := &restricted{t, s, s.CreateDatabase(t).Open(t), "u" + key[strings.LastIndex(key, ":")+1:]}
	if s.IsMySQL() {
		r.run("CREATE USER " + r.name + " IDENTIFIED BY 'secret'")
		t.Cleanup(func() { r.run("DROP USER " + r.name) })
		return r
	}
	r.run("CREATE ROLE " + r.name + " LOGIN PASSWORD 'secret'")
	r.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC") // as from PostgreSQL 15 on
	t.Cleanup(func() { r.run("DROP OWNED BY " + r.name); r.run("DROP ROLE " + r.name) })
	return r
}

func (r *restricted) run(text string) {
	r.t.Helper()
	_, err := r.admin.ExecContext(context.Background(), text)
	require.NoError(r.t, err, text)
}

func (r *restricted) grant(what, table string) {
	r.run("GRANT " + what + " ON " + table + " TO " + r.name)
}

// open opens the database as that user.
func (r *restricted) open() *sql.DB {
	r.t.Helper()
	var database string
	if r.s.IsMySQL() {
		require.NoError(r.t, r.admin.QueryRow("SELECT DATABASE()").Scan(&database))
		cfg, err := mysql.ParseDSN(r.s.DSN())
		require.NoError(r.t, err)
		cfg.User, cfg.Passwd, cfg.DBName = r.name, "secret", database
		return openDSN(r.t, cfg.FormatDSN())
	}
	require.NoError(r.t, r.admin.QueryRow("SELECT current_database()").Scan(&database))
	u, err := url.Parse(r.s.DSN())
	require.NoError(r.t, err)
	u.User, u.Path = url.UserPassword(r.name, "secret"), "/"+database
	return openDSN(r.t, u.String())
}

// requireDriverError expects that the server's refusal is below the error.
func (r *restricted) requireDriverError(err error) {
	r.t.Helper()
	var m *mysql.MySQLError
	var p *pgconn.PgError
	require.True(r.t, errors.As(err, &m) || errors.As(err, &p), "%v", err)
	require.NotErrorIs(r.t, err, lockctx.ErrNotAcquired)
}

func TestLeasesNeedToSelectInsertAndUpdateAndPruneToDelete(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		r := newRestricted(t, s)
		r.run("CREATE TABLE t (n int)")
		r.grant("INSERT", "t")
		db, key, ctx := r.open(), dbtest.Key(t), testCtx(t)

		ddl, err := lockctx.LeaseDDL(ctx, db)
		require.NoError(t, err)
		_, err = lockctx.TryAcquire(ctx, db, key, lockctx.Lease(time.Minute))
		require.ErrorContains(t, err, "cannot be created")
		require.ErrorContains(t, err, ddl)
		r.requireDriverError(err)

		r.run(ddl)
		r.grant("SELECT, INSERT", "lockdb_lease")
		_, err = lockctx.TryAcquire(ctx, db, key, lockctx.Lease(time.Minute))
		require.ErrorContains(t, err, "leases need SELECT, INSERT and UPDATE on their table")
		r.requireDriverError(err)

		r.grant("UPDATE", "lockdb_lease")
		lk := acquire(t, db, key, lockctx.Lease(ttl), lockctx.RenewEvery(100*time.Millisecond))
		(&leaseTable{t, s, r.admin}).awaitRenewal(key)
		require.NoError(t, lockctx.InTx(lk.Context(), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO t VALUES (1)")
			return err
		}, lockctx.Lease(ttl)))
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, lockctx.Fence(lk.Context(), tx))
		require.NoError(t, tx.Commit())
		require.NoError(t, lk.Close())

		_, err = lockctx.Prune(ctx, db, 0)
		require.Error(t, err)
		r.grant("DELETE", "lockdb_lease")
		pruned, err := lockctx.Prune(ctx, db, 0)
		require.NoError(t, err)
		require.EqualValues(t, 1, pruned)
	})
}
