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
		lockPromises(t, view, func(ttl time.Duration) *sql.DB {
			return openForeign(t, view, view.DSN(), driver.WithTTL(ttl))
		})
	})
}

func TestOverAForeignConnectorThePingsTellOfALoss(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		const ttl, interval, slack = 6 * time.Second, 6 * time.Second / 3, 1800 * time.Millisecond
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
				lost := func() time.Duration {
					lk := acquire(t, db)
					id := lockSession(t, s, db, lk)
					defer occupy(t, lk)()
					s.KillSession(t, id)
					killed := time.Now()
					select {
					case <-lk.Context().Done():
					case <-time.After(20 * time.Second):
						t.Fatal("nobody tells")
					}
					told := time.Since(killed)
					require.ErrorIs(t, context.Cause(lk.Context()), lockctx.ErrLost)
					require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
					return told
				}
				told := lost()
				for tries := 1; tries < 5 && told > interval+slack; tries++ { // a busy machine may delay one
					told = lost()
				}
				require.Less(t, told, interval+slack)
			})
		}
	})
}

func TestOverAForeignConnectorACutIsALossBeforeTheServerGrantsTheLockToAnother(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		const ttl = 6 * time.Second // and so the first is told a second before the grant
		for name, occupy := range map[string]func(t *testing.T, db *sql.DB, lk *lockctx.Lock){
			"idle": func(*testing.T, *sql.DB, *lockctx.Lock) {},
			"in a transaction": func(t *testing.T, db *sql.DB, lk *lockctx.Lock) {
				_, err := db.BeginTx(lk.Context(), nil)
				require.NoError(t, err)
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for tries := 1; ; tries++ {
					stalls := stallMeter()
					late := cutAndGranted(t, s, ttl, occupy)
					stalled := stalls()
					if late < 0 {
						return
					}
					require.True(t, tries < 5 && stalled > ttl/20, "told %v after the grant; the longest stall was %v", late, stalled)
				}
			})
		}
	})
}

// cutAndGranted cuts the session of a lock off, has another take the lock, and returns
// how much later than that the first was told.
func cutAndGranted(t *testing.T, s *dbtest.Server, ttl time.Duration, occupy func(t *testing.T, db *sql.DB, lk *lockctx.Lock)) time.Duration {
	t.Helper()
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
	lk2, err := lockctx.Acquire(testCtx(t), open(t, s), key)
	granted := time.Now()
	require.NoError(t, err)
	require.Less(t, granted.Sub(cut), ttl+20*time.Second)
	defer func() { require.NoError(t, lk2.Close()) }()
	select {
	case at := <-ended:
		require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
		return at.Sub(granted)
	case <-time.After(20 * time.Second):
		t.Fatal("another has the lock, and nobody told the first")
		return 0
	}
}
