package lockctx_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

func TestAStatementThatFailsDoesNotCostItsOwnersOtherLocks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		bad := []string{"SELECT pg_try_advisory_lock('no number')", "SELECT pg_advisory_lock(nothing)", "SELECT pg_advisory_unlock(1, 2, 3)"}
		dbs := map[string]*sql.DB{"": open(t, s)}
		if s.IsMySQL() {
			bad = []string{
				"SELECT GET_LOCK('" + strings.Repeat("long", 60) + "', 0)", "SELECT GET_LOCK('', 0)", "SELECT GET_LOCK(NULL, 0)",
				"SELECT GET_LOCK(nothing, 0)", "SELECT RELEASE_LOCK('" + strings.Repeat("long", 60) + "')", "DO GET_LOCK('a')",
			}
			r := newRestricted(t, s)
			r.grant("SELECT", "*")
			dbs["without privileges"] = r.open()
		}
		for who, db := range dbs {
			out, key := newOutsider(t, s), dbtest.Key(t)
			text := rawSQLFor(t, s, key)
			for _, query := range bad {
				require.True(t, yes(t, db, text.take), who)
				var ignored sql.NullString
				_ = db.QueryRowContext(testCtx(t), query).Scan(&ignored)
				_, _ = db.ExecContext(testCtx(t), query)
				require.False(t, out.try(key), "%s: %s released it", who, query)
				require.True(t, yes(t, db, text.release), who)
				require.True(t, out.try(key))
				require.Empty(t, heldBy(t, db), query)
			}
		}
	})
}

func TestPreparedLockStatementsStayWhereTheyWerePutToUse(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key, ctx := open(t, s), newOutsider(t, s), dbtest.Key(t), testCtx(t)
		mine, other := preparedFor(t, s, key+":mine"), preparedFor(t, s, key+":other")
		take, err := db.PrepareContext(ctx, mine.take)
		require.NoError(t, err)
		defer take.Close()
		release, err := db.PrepareContext(ctx, mine.release)
		require.NoError(t, err)
		defer release.Close()
		ask := func(stmt *sql.Stmt, args ...any) bool {
			var got sql.NullBool
			require.NoError(t, stmt.QueryRowContext(ctx, args...).Scan(&got))
			return got.Bool
		}
		for range 5 {
			require.True(t, ask(take, mine.args...)) // parked
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			own, err := tx.PrepareContext(ctx, mine.take)
			require.NoError(t, err)
			require.False(t, ask(own, mine.args...), "the transaction has a session of its own")
			require.False(t, ask(tx.StmtContext(ctx, take), mine.args...))
			require.True(t, ask(own, other.args...))
			require.False(t, ask(tx.StmtContext(ctx, release), mine.args[0]))
			require.Equal(t, askID(ctx, t, s, tx), out.holder(key+":other"))
			require.NoError(t, tx.Commit())
			require.True(t, out.try(key+":other"), "it outlived its transaction")

			c, err := db.Conn(ctx)
			require.NoError(t, err)
			own, err = c.PrepareContext(ctx, mine.take)
			require.NoError(t, err)
			require.False(t, ask(own, mine.args...))
			require.True(t, ask(own, other.args...))
			require.Equal(t, askID(ctx, t, s, c), out.holder(key+":other"))
			require.NoError(t, own.Close())
			require.False(t, out.try(key+":other"))
			require.NoError(t, c.Close())
			require.True(t, out.try(key+":other"), "it outlived its *sql.Conn")

			require.False(t, out.try(key+":mine"))
			require.True(t, ask(release, mine.args[0]))
			require.True(t, out.try(key+":mine"))
		}
	})
}

func TestAResultSetThatItsContextEndsLeavesNoLockInThePool(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		db.SetMaxOpenConns(1)
		text := rawSQLFor(t, s, key)
		for range 10 {
			ctx, cancel := context.WithCancel(testCtx(t))
			rows, err := db.QueryContext(ctx, text.take) //nolint:rowserrcheck,sqlclosecheck // that is for its context
			require.NoError(t, err)
			holder := out.holder(key)
			require.NotZero(t, holder)
			cancel()
			require.NotEqual(t, holder, askID(testCtx(t), t, s, db), "the pool has it")
			_ = yes(t, db, text.release) // the drivers may have closed the connection, which releases it
			out.free(key, promptly)
			_ = rows
		}
		require.Empty(t, heldBy(t, db))
	})
}

func TestTheOwnerIsWhoAskedWhoeverClosesTheResultSet(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		text := rawSQLFor(t, s, key)
		rows, err := db.QueryContext(testCtx(t), text.take)
		require.NoError(t, err)
		closed := make(chan struct{})
		alive := async(func() error {
			err := rows.Close()
			close(closed)
			time.Sleep(100 * time.Millisecond) // it lives while its caller releases
			return err
		})
		<-closed
		require.NoError(t, rows.Err())
		require.True(t, yes(t, db, text.release))
		require.True(t, out.try(key))
		require.NoError(t, <-alive)
	})
}
