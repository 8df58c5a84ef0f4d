package lockctx_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestPruneDeletesTheRowsOfIdleLeasesAndNoOthers(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		const age = time.Minute
		view := s.CreateDatabase(t)
		db, key, rows := open(t, view), dbtest.Key(t), newLeaseTable(t, view)
		held := acquire(t, db, key+"held", lockctx.Lease(forLong))
		expired := acquire(t, db, key+"expired", lockctx.Lease(forLong))
		idle := map[string]int64{}
		for i := range 5 {
			lk := acquire(t, db, fmt.Sprint(key, i), lockctx.Lease(forLong))
			idle[lk.Key()] = lk.Token()
			require.NoError(t, lk.Close())
		}
		n, err := lockctx.Prune(testCtx(t), db, age)
		require.NoError(t, err)
		require.Zero(t, n, "nothing has been idle for so long")
		for k := range idle { // it was taken, and released, an hour ago
			older := "UPDATE lockdb_lease SET token = token - 3600000000 WHERE lease_key = '" + lockName(t, k) + "'"
			rows.exec(older, older)
		}
		rows.expire(key + "expired") // a moment ago
		recent := acquire(t, db, key+"recent", lockctx.Lease(forLong))
		require.NoError(t, recent.Close())

		n, err = lockctx.Prune(testCtx(t), db, age)
		require.NoError(t, err)
		require.EqualValues(t, len(idle), n)
		for k := range idle {
			_, found := rows.look(k)
			require.False(t, found)
		}
		for _, k := range []string{"held", "expired", "recent"} {
			_, found := rows.look(key + k)
			require.True(t, found, k)
		}
		require.NoError(t, held.Err())
		require.NoError(t, held.Close())
		require.NoError(t, expired.Close(), "its row is still its own")
		n, err = lockctx.Prune(testCtx(t), db, 0)
		require.NoError(t, err)
		require.EqualValues(t, 3, n)
		for k, token := range idle {
			lk := acquire(t, db, k, lockctx.Lease(forLong))
			require.Greater(t, lk.Token(), token)
			require.NoError(t, lk.Close())
		}
	})
}

func TestPruneGoesThroughManyRows(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, key, rows := open(t, view), dbtest.Key(t), newLeaseTable(t, view)
		held := acquire(t, db, key, lockctx.Lease(forLong))
		const fifty = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) SELECT "
		rows.exec("INSERT INTO lockdb_lease "+fifty+"CONCAT('row', a.i, '-', b.i), 'somebody', 1, 0 FROM n a CROSS JOIN n b",
			"INSERT INTO lockdb_lease "+fifty+"'row' || a.i || '-' || b.i, 'somebody', 1, 'epoch' FROM n a CROSS JOIN n b")
		n, err := lockctx.Prune(testCtx(t), db, time.Hour)
		require.NoError(t, err)
		require.EqualValues(t, 2500, n)
		require.True(t, rows.isHeld(key))
		require.NoError(t, held.Close())
	})
}

func TestTokensGrowWhateverBecomesOfTheRow(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, other, key, rows := open(t, view), open(t, view), dbtest.Key(t), newLeaseTable(t, view)
		name := lockName(t, key)
		lk := acquire(t, db, key, lockctx.Lease(forLong))
		last := lk.Token()
		for what, between := range map[string]func(){
			"a release": func() { require.NoError(t, lk.Close()) },
			"an expiry": func() { rows.expire(key) },
			"a DELETE": func() {
				rows.exec("DELETE FROM lockdb_lease WHERE lease_key = '"+name+"'", "DELETE FROM lockdb_lease WHERE lease_key = '"+name+"'")
			},
			"a TRUNCATE": func() { rows.exec("TRUNCATE TABLE lockdb_lease", "TRUNCATE TABLE lockdb_lease") },
			"a prune": func() {
				require.NoError(t, lk.Close())
				_, err := lockctx.Prune(testCtx(t), db, 0)
				require.NoError(t, err)
			},
			"a DROP":        func() { rows.exec("DROP TABLE lockdb_lease", "DROP TABLE lockdb_lease") },
			"a take-over":   func() { rows.steal(key); rows.expire(key) },
			"a quick reuse": func() { require.NoError(t, lk.Close()) },
		} {
			between()
			db, other = other, db
			next := acquire(t, db, key, lockctx.Lease(forLong))
			require.Greater(t, next.Token(), last, "after %s", what)
			if err := lk.Close(); err != nil {
				require.ErrorIs(t, err, lockctx.ErrLost, "after %s", what)
			}
			row, _ := rows.look(key)
			require.Equal(t, next.Token(), row.token)
			require.Positive(t, row.left, "after %s the former holder's Close released the lease", what)
			lk, last = next, next.Token()
		}
		require.NoError(t, lk.Close())
	})
}
