package lockctx_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// tableExists tells whether a table of exactly that name is in the schema.
func tableExists(t testing.TB, bare *sql.DB, schema, name string) (exists bool) {
	t.Helper()
	query := "SELECT count(*) > 0 FROM information_schema.tables WHERE table_schema = '" + schema + "' AND BINARY table_name = '" + name + "'"
	if err := bare.QueryRow(query).Scan(&exists); err != nil {
		require.NoError(t, bare.QueryRow(strings.Replace(query, "BINARY", "", 1)).Scan(&exists))
	}
	return exists
}

func TestATableOfLeasesMayHaveAnyName(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		bare := view.Open(t)
		query, other := "SELECT DATABASE()", s.CreateDatabase(t)
		if !s.IsMySQL() {
			query, other = "SELECT current_schema()", view
			_, err := bare.Exec("CREATE SCHEMA elsewhere")
			require.NoError(t, err)
		}
		var here, there string
		require.NoError(t, bare.QueryRow(query).Scan(&here))
		require.NoError(t, other.Open(t).QueryRow(query).Scan(&there))
		if !s.IsMySQL() {
			there = "elsewhere"
		}
		key := dbtest.Key(t)
		held := map[string]*lockctx.Lock{}
		for _, name := range []string{
			"lockdb_lease", "my_leases", "Select", "order", "x" + strings.Repeat("_y", 31),
			there + ".lockdb_lease", there + ".Group",
		} {
			db := open(t, view, driver.WithLeaseTable(name))
			held[name] = acquire(t, db, key, lockctx.Lease(time.Minute))
			_, err := lockctx.TryAcquire(testCtx(t), open(t, view, driver.WithLeaseTable(name)), key, lockctx.Lease(time.Minute))
			require.ErrorIs(t, err, lockctx.ErrNotAcquired, name)
			schema, table := here, name
			if before, after, qualified := strings.Cut(name, "."); qualified {
				schema, table = before, after
			}
			if !s.IsMySQL() {
				table = strings.ToLower(table) // as without quotes
			}
			require.True(t, tableExists(t, bare, schema, table), name)
			ddl, err := lockctx.LeaseDDL(testCtx(t), db)
			require.NoError(t, err)
			require.Contains(t, ddl, table)
			_, err = bare.Exec(ddl)
			require.NoError(t, err, "it does no harm to a table that is there")
		}
		for name, lk := range held {
			require.NoError(t, lk.Err(), "%s: leases of several tables met", name)
			require.NoError(t, lk.Close(), name)
		}

		_, err := lockctx.TryAcquire(testCtx(t), open(t, view, driver.WithLeaseTable("no_such.leases")), key, lockctx.Lease(time.Minute))
		require.ErrorContains(t, err, "no_such")
		require.ErrorContains(t, err, "cannot be created")
	})
}

func TestTheTableOfLeasesIsWhereTheSearchPathSays(t *testing.T) {
	view := dbtest.Shared(t, dbtest.Postgres).CreateDatabase(t)
	bare := view.Open(t)
	_, err := bare.Exec("CREATE SCHEMA app")
	require.NoError(t, err)
	key := dbtest.Key(t)
	db := openDSN(t, withParam(view, view.DSN(), "", "search_path=app,public"))
	lk := acquire(t, db, key, lockctx.Lease(time.Minute))
	require.True(t, tableExists(t, bare, "app", "lockdb_lease"))
	_, err = lockctx.TryAcquire(testCtx(t), open(t, view, driver.WithLeaseTable("app.lockdb_lease")), key, lockctx.Lease(time.Minute))
	require.ErrorIs(t, err, lockctx.ErrNotAcquired, "the same table by its full name")
	require.NoError(t, lk.Close())
}

func TestATableThatIsNoneOfLeasesIsAnErrorUntilItIsMended(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, rows, key := open(t, view), newLeaseTable(t, view), dbtest.Key(t)
		const create = "CREATE TABLE lockdb_lease (lease_key int, name varchar(10))"
		rows.exec(create, create)
		for range 2 {
			_, err := lockctx.Acquire(testCtx(t), db, key, lockctx.Lease(time.Minute))
			require.ErrorContains(t, err, key)
			require.ErrorContains(t, err, "the table of leases has another shape")
			require.ErrorContains(t, err, "it has no column owner")
			require.ErrorContains(t, err, "lockdb_lease_table")
			require.ErrorContains(t, err, "CREATE TABLE")
			require.NotErrorIs(t, err, lockctx.ErrNotAcquired)
		}
		rows.exec("DROP TABLE lockdb_lease", "DROP TABLE lockdb_lease")
		require.NoError(t, acquire(t, db, key, lockctx.Lease(time.Minute)).Close())
	})
}

func TestATableThatIsDroppedWhileItIsUsedIsMadeAnew(t *testing.T) {
	const ttl = 3 * time.Second
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		db, other, rows, key := open(t, view), open(t, view), newLeaseTable(t, view), dbtest.Key(t)
		for range 2 {
			former := acquire(t, db, key, lockctx.Lease(ttl))
			tx, err := db.BeginTx(former.Context(), nil)
			require.NoError(t, err)
			tab.mustInsert(testCtx(t), tx, 1)
			waiter := waitForLease(testCtx(t), t, other, key, lockctx.Lease(lasting))
			rows.exec("DROP TABLE lockdb_lease", "DROP TABLE lockdb_lease")
			dropped := time.Now()
			next := within(t, waiter, promptly, "the lease, in the new table")
			require.NoError(t, next.err)
			require.Less(t, next.at.Sub(dropped), ttl+4*time.Second)
			require.Greater(t, next.lk.Token(), former.Token())
			requireCommitFailed(t, tx.Commit(), former, lockctx.ErrLost)
			requireLost(t, former)
			require.ErrorIs(t, former.Close(), lockctx.ErrLost)
			require.NoError(t, next.lk.Err())
			require.NoError(t, next.lk.Close())
			require.NoError(t, acquire(t, db, key, lockctx.Lease(lasting)).Close())
		}
		require.Empty(t, tab.ids())
	})
}

func TestAServerThatBecomesReadOnlyEndsLeasesAndSaysWhy(t *testing.T) {
	const ttl = 1500 * time.Millisecond
	for _, k := range []dbtest.Kind{dbtest.MySQL, dbtest.MariaDB, dbtest.Postgres} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			s := dbtest.Private(t, k)
			r := newRestricted(t, s) // an administrator may write nevertheless
			admin := s.Open(t)
			become := func(on string) {
				for _, statement := range readOnly(s, on) {
					_, err := admin.Exec(statement)
					require.NoError(t, err)
				}
			}
			db, key := r.open(), dbtest.Key(t)
			ddl, err := lockctx.LeaseDDL(testCtx(t), db)
			require.NoError(t, err)
			r.run(ddl)
			r.grant("SELECT, INSERT, UPDATE", "lockdb_lease")
			lk := acquire(t, db, key, lockctx.Lease(ttl))
			become("ON")
			defer become("OFF")
			requireLost(t, lk)
			require.ErrorContains(t, lk.Err(), "read")
			_, err = lockctx.Acquire(testCtx(t), db, dbtest.Key(t), lockctx.Lease(ttl))
			require.Error(t, err)
			require.NotErrorIs(t, err, lockctx.ErrNotAcquired)
			require.ErrorContains(t, err, "read")
			t.Log(err)
			become("OFF")
			require.Eventually(t, func() bool {
				lk, err := lockctx.Acquire(context.Background(), db, key, lockctx.Lease(ttl))
				return err == nil && lk.Close() == nil
			}, promptly, 20*time.Millisecond)
		})
	}
}
