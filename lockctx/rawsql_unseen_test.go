package lockctx_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// execUnseen runs a statement on the connection below lockdb.
func execUnseen(t testing.TB, c *sql.Conn, query string) {
	t.Helper()
	require.NoError(t, c.Raw(func(dc any) error {
		inner := dc.(interface{ Raw() sqldriver.Conn }).Raw()
		return second(inner.(sqldriver.ExecerContext).ExecContext(context.Background(), query, nil))
	}))
}

func TestTheReleaseOfALockTakenUnseenIsNotTakenForThatOfAnother(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		key := dbtest.Key(t)
		seen, unseen := rawSQLFor(t, s, key), rawSQLFor(t, s, key+"-unseen")
		pairs := []rawPair{{unseen.take, seen.take, unseen.release}}
		if !s.IsMySQL() {
			id := lockID(t, key)
			pairs = append(pairs,
				rawPair{unseen.take, fmt.Sprintf("SELECT pg_try_advisory_lock_shared(%d)", id), unseen.release},
				rawPair{seen.take, fmt.Sprintf("SELECT pg_try_advisory_lock_shared(%d)", id), seen.release})
		}
		for _, pair := range pairs {
			db, out := open(t, s), newOutsider(t, s)
			db.SetMaxOpenConns(1)
			c, err := db.Conn(testCtx(t))
			require.NoError(t, err)
			execUnseen(t, c, pair.unseen)
			require.True(t, yes(t, c, pair.seen))
			require.True(t, yes(t, c, pair.release))
			require.False(t, out.try(key))
			require.NoError(t, c.Close())
			out.free(key, promptly) // which it would not be if the pool had it
			out.free(key+"-unseen", promptly)
		}
	})
}

// rawPair are a lock that is taken unseen, another one, and the release of the first.
type rawPair struct{ unseen, seen, release string }

func TestAStatementThatATransactionHasPreparedFindsItsGoroutinesLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		text := rawSQLFor(t, s, key)
		release, err := db.PrepareContext(testCtx(t), text.release)
		require.NoError(t, err)
		defer func() { require.NoError(t, release.Close()) }()
		first, err := db.Conn(testCtx(t)) // where it is prepared
		require.NoError(t, err)
		tx, err := db.BeginTx(testCtx(t), nil)
		require.NoError(t, err)
		var released sql.NullBool
		require.NoError(t, tx.StmtContext(testCtx(t), release).QueryRow().Scan(&released))
		require.False(t, released.Bool)
		require.NoError(t, tx.Commit())

		require.True(t, yes(t, db, text.take))
		require.False(t, out.try(key))
		require.NoError(t, release.QueryRow().Scan(&released))
		require.True(t, released.Bool)
		require.True(t, out.try(key))
		require.NoError(t, first.Close())
	})
}
