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

// rawSQL are the lock statements that a program of old sends as text, for one lock.
// block takes it too, and waits for it: at most 2 s on MySQL.
type rawSQL struct{ take, release, block string }

func rawSQLFor(t testing.TB, s *dbtest.Server, key string) rawSQL {
	if s.IsMySQL() {
		name := lockName(t, key)
		return rawSQL{"SELECT GET_LOCK('" + name + "', 0)", "SELECT RELEASE_LOCK('" + name + "')", "SELECT GET_LOCK('" + name + "', 2)"}
	}
	id := lockID(t, key)
	return rawSQL{fmt.Sprintf("SELECT pg_try_advisory_lock(%d)", id), fmt.Sprintf("SELECT pg_advisory_unlock(%d)", id), fmt.Sprintf("SELECT pg_advisory_lock(%d)", id)}
}

// rower is a *sql.DB, a *sql.Conn or a *sql.Tx.
type rower interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// yes runs a lock statement and tells whether it took, or released, the lock.
func yes(t testing.TB, db rower, query string, args ...any) bool {
	t.Helper()
	var answer sql.NullBool
	require.NoError(t, db.QueryRowContext(testCtx(t), query, args...).Scan(&answer))
	return answer.Bool
}

// heldRaw are the locks of parked sessions.
func heldRaw(t testing.TB, db *sql.DB) (parked []lockctx.HeldLock) {
	t.Helper()
	for _, h := range heldBy(t, db) {
		if h.Parked {
			parked = append(parked, h)
		}
	}
	return parked
}
