package lockctx_test

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// The keep-alive's ping fails with driver.ErrBadConn, which must not come out.
func TestALossThatOnlyAPingFindsIsErrLostAndNotErrBadConn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := openUnwatched(t, s, driver.WithTTL(time.Second))
		lk := acquire(t, db, dbtest.Key(t))
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		s.KillSession(t, sessionOf(t, s, tx))
		<-lk.Context().Done()

		_, queryErr := db.ExecContext(lk.Context(), "SELECT 1")
		_, stmtErr := lk.DB().PrepareContext(lk.Context(), "SELECT 1")
		for _, err := range []error{lk.Err(), lk.Context().Err(), queryErr, stmtErr, lk.Close()} {
			require.ErrorIs(t, err, lockctx.ErrLost)
			require.NotErrorIs(t, err, sqldriver.ErrBadConn)
		}
		if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) { // database/sql may have rolled back first
			require.ErrorIs(t, err, lockctx.ErrLost)
			require.NotErrorIs(t, err, sqldriver.ErrBadConn)
		}
	})
}

// openUnwatched opens a server through connectors whose sockets lockdb does not
// see.
func openUnwatched(t *testing.T, s *dbtest.Server, opts ...driver.Option) *sql.DB {
	t.Helper()
	var inner sqldriver.Connector
	if s.IsMySQL() {
		config, err := mysql.ParseDSN(s.DSN())
		require.NoError(t, err)
		inner, err = mysql.NewConnector(config)
		require.NoError(t, err)
	} else {
		config, err := pgx.ParseConfig(s.DSN())
		require.NoError(t, err)
		inner = stdlib.GetConnector(*config)
	}
	c, err := driver.NewConnector(inner, opts...)
	require.NoError(t, err)
	db := sql.OpenDB(c)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func sessionOf(t *testing.T, s *dbtest.Server, tx *sql.Tx) (id int64) {
	t.Helper()
	query := "SELECT CONNECTION_ID()"
	if !s.IsMySQL() {
		query = "SELECT pg_backend_pid()"
	}
	require.NoError(t, tx.QueryRow(query).Scan(&id))
	return id
}
