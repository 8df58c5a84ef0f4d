package orm_test

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/lockctx"
)

// openConnectorOfOthers opens lockdb around a connector that it did not make: on
// PostgreSQL one of lib/pq's, a driver that it does not know.
func openConnectorOfOthers(t *testing.T, s server) client {
	var inner sqldriver.Connector
	opts := []driver.Option{driver.WithTTL(5 * time.Second)} // pings tell of a loss
	if s.IsMySQL() {
		config, err := mysql.ParseDSN(s.DSN())
		require.NoError(t, err)
		inner, err = mysql.NewConnector(config)
		require.NoError(t, err)
	} else {
		var err error
		inner, err = pq.NewConnector(s.DSN())
		require.NoError(t, err)
		opts = append(opts, driver.WithDialect(driver.Postgres))
	}
	c, err := driver.NewConnector(inner, opts...)
	require.NoError(t, err)
	db := sql.OpenDB(c)
	closeAtEnd(t, db)
	return newPlainClient(db, s)
}

// The end of a slice of the wait at the server is an error, which each driver
// reports in its own way.
func TestAWaiterThroughAnyDriverWaitsOnAtTheEndOfASlice(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		holder, waiter := openConnectorOfOthers(t, s).db(), openConnectorOfOthers(t, s).db()
		lk, _ := s.acquire(t, holder)
		_, err := lockctx.Acquire(testCtx(t), waiter, lk.Key(), lockctx.WithTimeout(1300*time.Millisecond))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		served := make(chan error, 1)
		go func() {
			lk, err := lockctx.Acquire(testCtx(t), waiter, lk.Key())
			if err == nil {
				err = lk.Close()
			}
			served <- err
		}()
		time.Sleep(100 * time.Millisecond) // it should be waiting by then; if not, so much the easier
		require.NoError(t, lk.Close())
		require.NoError(t, <-served)
	})
}
