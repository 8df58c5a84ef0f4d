package lockctx_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// dropping are statements that would drop the lock of key, or all.
func dropping(t testing.TB, s *dbtest.Server, key string) []statement {
	t.Helper()
	if s.IsMySQL() {
		name := lockName(t, key)
		return []statement{
			{text: "SELECT RELEASE_ALL_LOCKS()"},
			{text: "DO release_all_locks ( )"},
			{text: "SELECT 1 + /* all */ RELEASE_ALL_LOCKS()"},
			{text: "SELECT /*!50000 RELEASE_ALL_LOCKS() */"},
			{text: "SELECT RELEASE_LOCK('" + name + "')"},
			{text: "DO RELEASE_LOCK(\"" + name + "\")"},
			{text: "SELECT RELEASE_LOCK(?)", args: []any{name}},
			{text: "SELECT RELEASE_LOCK(CONCAT('', ?))", args: []any{name}},
			{text: "SELECT RELEASE_LOCK(t.n) FROM (SELECT '" + name + "' AS n) AS t"},
		}
	}
	id := lockID(t, key)
	return []statement{
		{text: "DISCARD ALL"},
		{text: "discard /* everything */ all;"},
		{text: "SELECT pg_advisory_unlock_all()"},
		{text: "SELECT pg_catalog.pg_advisory_unlock_all()"},
		{text: fmt.Sprintf("SELECT pg_advisory_unlock(%d)", id)},
		{text: fmt.Sprintf("SELECT \"pg_advisory_unlock\"(%d::bigint)", id)},
		{text: "SELECT pg_advisory_unlock($1)", args: []any{id}},
		{text: "SELECT pg_advisory_unlock($1::bigint + 0)", args: []any{id}},
		{text: fmt.Sprintf("SELECT pg_advisory_unlock(x) FROM (SELECT %d::bigint AS x) AS t", id)},
	}
}

type statement struct {
	text string
	args []any
}

func TestI3_AStatementThatWouldDropTheLockUnderItIsRefused(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out := open(t, s), newOutsider(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		inTx := func(fn func(q asker) error) error { return fn(tx) }
		onDB := func(fn func(q asker) error) error { return fn(db) }
		check := func(on func(func(q asker) error) error) {
			for _, stmt := range dropping(t, s, lk.Key()) {
				require.ErrorIs(t, on(func(q asker) error {
					_, err := q.ExecContext(lk.Context(), stmt.text, stmt.args...)
					return err
				}), lockctx.ErrUnsupported, stmt.text)
				require.ErrorIs(t, on(func(q asker) error {
					return q.QueryRowContext(lk.Context(), stmt.text, stmt.args...).Err()
				}), lockctx.ErrUnsupported, stmt.text)
				require.NoError(t, lk.Err())
				require.False(t, out.try(lk.Key()), "%s dropped the lock", stmt.text)
			}
		}
		check(inTx)
		require.NoError(t, tx.Commit(), "a refused statement costs the transaction nothing")
		check(onDB)
		require.NoError(t, lk.Close())
	})
}

func TestI3_APreparedStatementThatWouldDropTheLockIsRefusedUnderIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out := open(t, s), newOutsider(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		for _, stmt := range dropping(t, s, lk.Key()) {
			prepared, err := db.PrepareContext(testCtx(t), stmt.text)
			require.NoError(t, err, stmt.text)
			_, err = prepared.ExecContext(lk.Context(), stmt.args...)
			require.ErrorIs(t, err, lockctx.ErrUnsupported, stmt.text)
			require.ErrorIs(t, prepared.QueryRowContext(lk.Context(), stmt.args...).Err(), lockctx.ErrUnsupported, stmt.text)
			require.NoError(t, prepared.Close())
			require.False(t, out.try(lk.Key()), "%s dropped the lock", stmt.text)
		}
		require.NoError(t, lk.Close())
	})
}

func TestI3_TheUsersOwnRawLocksMayBeReleasedUnderALock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out, raw := open(t, s), newOutsider(t, s), dbtest.Key(t)
		lk := acquire(t, db, dbtest.Key(t))
		_, query, arg := rawLock(t, s, raw)
		_, err := db.ExecContext(lk.Context(), query, arg)
		require.NoError(t, err)
		require.False(t, out.try(raw))
		unlock := "SELECT RELEASE_LOCK(?)"
		if !s.IsMySQL() {
			unlock = "SELECT pg_advisory_unlock($1)"
		}
		var released bool
		require.NoError(t, db.QueryRowContext(lk.Context(), unlock, arg).Scan(&released))
		require.True(t, released)
		require.True(t, out.try(raw))
		require.False(t, out.try(lk.Key()))
		require.NoError(t, lk.Close())
	})
}

func TestI3_ALockDroppedBehindLockdbsBackIsToldAtTheReleaseAtTheLatest(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out := open(t, s), newOutsider(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		c, err := lk.Conn(testCtx(t))
		require.NoError(t, err)
		dropRaw(t, c)
		require.NoError(t, c.Close())
		require.True(t, out.try(lk.Key()))
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}

// dropRaw drops all locks of the session through the driver's own connection.
func dropRaw(t testing.TB, c *sql.Conn) {
	t.Helper()
	require.NoError(t, c.Raw(func(dc any) error {
		return rawExec(context.Background(), dc, "SELECT RELEASE_ALL_LOCKS()", "SELECT pg_advisory_unlock_all()")
	}))
}
