package conn_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
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

// foreignConnector is a connector of the inner driver's that a program made
// itself: lockdb does not dial, and so knows no sockets.
func foreignConnector(t *testing.T, s *dbtest.Server, dsn string) sqldriver.Connector {
	t.Helper()
	if s.IsMySQL() {
		cfg, err := mysql.ParseDSN(dsn)
		require.NoError(t, err)
		c, err := mysql.NewConnector(cfg)
		require.NoError(t, err)
		return c
	}
	cfg, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	return stdlib.GetConnector(*cfg)
}

func openForeign(t *testing.T, s *dbtest.Server, dsn string, opts ...driver.Option) *sql.DB {
	t.Helper()
	c, err := driver.NewConnector(foreignConnector(t, s, dsn), opts...)
	require.NoError(t, err)
	db := sql.OpenDB(c)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func TestOverAForeignConnectorLocksKeepTheirPromises(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		_, err := view.Open(t).Exec("CREATE TABLE counter (n int)")
		require.NoError(t, err)
		lockPromises(t, view, openForeign(t, view, view.DSN(), driver.WithTTL(time.Second)))
	})
}

func TestOverAForeignConnectorThePingsTellOfALoss(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		const ttl, interval, slack = 2 * time.Second, 2 * time.Second / 3, 500 * time.Millisecond
		db := openForeign(t, s, s.DSN(), driver.WithTTL(ttl))
		for name, occupy := range map[string]func(t *testing.T, lk *lockctx.Lock) (done func()){
			"idle": func(*testing.T, *lockctx.Lock) func() { return func() {} },
			"in a transaction": func(t *testing.T, lk *lockctx.Lock) func() {
				tx, err := db.BeginTx(lk.Context(), nil)
				require.NoError(t, err)
				return func() { require.Error(t, tx.Commit()) }
			},
			"with an open result set": func(t *testing.T, lk *lockctx.Lock) func() {
				rows, err := db.QueryContext(lk.Context(), "SELECT 1")
				require.NoError(t, err)
				return func() { _ = rows.Close() }
			},
		} {
			t.Run(name, func(t *testing.T) {
				lk := acquire(t, db)
				id := lockSession(t, s, db, lk)
				defer occupy(t, lk)()
				s.KillSession(t, id)
				killed := time.Now()
				select {
				case <-lk.Context().Done():
				case <-time.After(10 * time.Second):
					t.Fatal("nobody tells")
				}
				require.Less(t, time.Since(killed), interval+slack)
				require.ErrorIs(t, context.Cause(lk.Context()), lockctx.ErrLost)
				require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
			})
		}
	})
}

func TestOverAForeignConnectorACutIsALossBeforeTheServerGrantsTheLockToAnother(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		const ttl = 2 * time.Second
		for name, occupy := range map[string]func(t *testing.T, db *sql.DB, lk *lockctx.Lock){
			"idle": func(*testing.T, *sql.DB, *lockctx.Lock) {},
			"in a transaction": func(t *testing.T, db *sql.DB, lk *lockctx.Lock) {
				_, err := db.BeginTx(lk.Context(), nil)
				require.NoError(t, err)
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				relay := s.Relay(t)
				db := openForeign(t, s, relay.DSN(), driver.WithTTL(ttl))
				key := dbtest.Key(t)
				lk, err := lockctx.Acquire(testCtx(t), db, key)
				require.NoError(t, err)
				defer func() { _ = lk.Close() }()
				occupy(t, db, lk)
				ended := make(chan time.Time, 1)
				context.AfterFunc(lk.Context(), func() { ended <- time.Now() })
				relay.CutForGood()
				cut := time.Now()
				other := open(t, s)
				lk2, err := lockctx.Acquire(testCtx(t), other, key)
				granted := time.Now()
				require.NoError(t, err)
				require.Less(t, granted.Sub(cut), ttl+2*time.Second)
				select {
				case at := <-ended:
					require.True(t, at.Before(granted), "told %v after the grant", at.Sub(granted))
				default:
					t.Fatal("another has the lock, and nobody told the first")
				}
				require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
				require.NoError(t, lk2.Close())
			})
		}
	})
}
