package conn_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// copyTwo copies two rows into a table by the means of pgx.
func copyTwo(c *sql.Conn, table string) error {
	return c.Raw(func(dc any) error {
		pg := dc.(interface{ Conn() *pgx.Conn }).Conn()
		if pg == nil {
			return errors.New("no connection")
		}
		n, err := pg.CopyFrom(context.Background(), pgx.Identifier{table}, []string{"a"}, pgx.CopyFromRows([][]any{{1}, {2}}))
		if err == nil && n != 2 {
			err = fmt.Errorf("copied %d rows", n)
		}
		return err
	})
}

// rawID is the session's id as the connection that Raw gives out knows it.
func rawID(t *testing.T, s *dbtest.Server, c *sql.Conn) (id int64) {
	t.Helper()
	require.NoError(t, c.Raw(func(dc any) error {
		inner := dc.(interface{ Raw() sqldriver.Conn }).Raw()
		if inner == nil {
			return errors.New("no connection")
		}
		query := "SELECT CONNECTION_ID()"
		if !s.IsMySQL() {
			query = "SELECT pg_backend_pid()::int8"
		}
		rows, err := inner.(sqldriver.QueryerContext).QueryContext(context.Background(), query, nil)
		if err != nil {
			return err
		}
		defer rows.Close()
		row := make([]sqldriver.Value, 1)
		err = rows.Next(row)
		switch v := row[0].(type) {
		case int64:
			id = v
		case uint64:
			id = int64(v)
		case []byte:
			_, err = fmt.Sscan(string(v), &id)
		}
		return err
	}))
	return id
}

func TestC66_RawGivesTheDriversOwnConnection(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		ctx := testCtx(t)
		db := open(t, s)
		c, err := db.Conn(ctx)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.Raw(func(dc any) error {
			inner := dc.(interface{ Raw() sqldriver.Conn }).Raw()
			_, hasPgx := dc.(interface{ Conn() *pgx.Conn })
			if s.IsMySQL() {
				require.Equal(t, "*mysql.mysqlConn", fmt.Sprintf("%T", inner))
			} else {
				require.IsType(t, &stdlib.Conn{}, inner)
				require.Same(t, inner.(*stdlib.Conn).Conn(), dc.(interface{ Conn() *pgx.Conn }).Conn())
			}
			require.Equal(t, !s.IsMySQL(), hasPgx)
			return nil
		}))
		require.Equal(t, sessionID(t, s, c), rawID(t, s, c))
	})
}

func TestC66_RawOfALocksConnGivesTheLocksSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		ctx := testCtx(t)
		db := open(t, s, driver.WithBusyTimeout(100*time.Millisecond))
		lk := acquire(t, db)
		c, err := lk.Conn(ctx)
		require.NoError(t, err)
		defer c.Close()
		id := sessionID(t, s, c)
		require.Equal(t, id, rawID(t, s, c))
		require.Equal(t, id, rawID(t, s, c), "again")

		_, err = db.ExecContext(lk.Context(), "SELECT 1")
		require.ErrorIs(t, err, lockctx.ErrBusy, "nobody tells when he who has it is done")
		require.ErrorContains(t, err, "a Raw access")
		require.Equal(t, id, sessionID(t, s, c), "a statement on the conn tells")
		_, err = db.ExecContext(lk.Context(), "SELECT 1")
		require.NoError(t, err)

		require.Equal(t, id, rawID(t, s, c))
		require.NoError(t, c.Close())
		_, err = db.ExecContext(lk.Context(), "SELECT 1")
		require.NoError(t, err, "so does its Close")
		require.NoError(t, lk.Close())
	})
}

func TestRawAfterTheEndOfTheLockGivesNothing(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	lk := acquire(t, open(t, s))
	c, err := lk.Conn(testCtx(t))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, lk.Close())
	require.EqualError(t, copyTwo(c, "nowhere"), "no connection")
}

func TestALockCanBeClosedWhileItsSessionIsInTheUsersHands(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s, driver.WithBusyTimeout(300*time.Millisecond))
		key := dbtest.Key(t)
		lk, err := lockctx.Acquire(testCtx(t), db, key)
		require.NoError(t, err)
		c, err := lk.Conn(testCtx(t))
		require.NoError(t, err)
		rawID(t, s, c)
		require.ErrorIs(t, lk.Close(), lockctx.ErrReleased)
		require.Eventually(t, func() bool { return free(t, s, key) }, 10*time.Second, 10*time.Millisecond)
		require.NoError(t, c.Close())
	})
}

func TestC66_CopyFromRunsWhereTheStatementsRun(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres).CreateDatabase(t)
	ctx := testCtx(t)
	_, err := s.Open(t).Exec("CREATE TABLE copied (a int)")
	require.NoError(t, err)
	db := open(t, s)
	count := func(t *testing.T) (n int) {
		require.NoError(t, s.Open(t).QueryRow("SELECT count(*) FROM copied").Scan(&n))
		return n
	}

	t.Run("on the pool", func(t *testing.T) {
		c, err := db.Conn(ctx)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, copyTwo(c, "copied"))
		require.Equal(t, 2, count(t))
	})
	t.Run("under a lock", func(t *testing.T) {
		lk := acquire(t, db)
		c, err := lk.Conn(ctx)
		require.NoError(t, err)
		defer c.Close()
		_, err = c.ExecContext(ctx, "CREATE TEMPORARY TABLE mine (a int)")
		require.NoError(t, err)
		require.NoError(t, copyTwo(c, "mine"), "it is the lock's session that has the table")
		_, err = c.ExecContext(ctx, "DROP TABLE mine")
		require.NoError(t, err)
	})
	t.Run("in a transaction under a lock", func(t *testing.T) {
		before := count(t)
		lk := acquire(t, db)
		c, err := lk.Conn(ctx)
		require.NoError(t, err)
		defer c.Close()
		for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
			tx, err := c.BeginTx(ctx, nil)
			require.NoError(t, err)
			require.NoError(t, copyTwo(c, "copied"))
			_, err = tx.Exec("INSERT INTO copied VALUES (3)")
			require.NoError(t, err)
			require.Equal(t, before, count(t))
			require.NoError(t, end(tx))
		}
		require.Equal(t, before+3, count(t))
	})
}
