package lockctx_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	lockdb "github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// innerConnector is the bare driver's.
func innerConnector(s *dbtest.Server) (driver.Connector, error) {
	if !s.IsMySQL() {
		return stdlib.GetDefaultDriver().(driver.DriverContext).OpenConnector(s.DSN())
	}
	cfg, err := mysql.ParseDSN(s.DSN())
	if err != nil {
		return nil, err
	}
	return mysql.NewConnector(cfg)
}

// wrapper is a driver around lockdb's, as tracing libraries have one.
type wrapper struct{ driver.Connector }

func (w wrapper) Driver() driver.Driver { return w }
func (w wrapper) Close() error          { return w.Connector.(io.Closer).Close() }

func (w wrapper) Open(string) (driver.Conn, error) { return w.Connect(context.Background()) }

func (w wrapper) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return wrapperConn{c}, nil
}

type wrapperConn struct{ driver.Conn }

func (c wrapperConn) Raw() driver.Conn { return c.Conn }

func (c wrapperConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c wrapperConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c wrapperConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

func (c wrapperConn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

func (c wrapperConn) ResetSession(ctx context.Context) error {
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

func TestLocksWorkThroughAWrapperThatOffersRaw(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		for name, wrap := range map[string]func(driver.Connector) driver.Connector{
			"one":   func(c driver.Connector) driver.Connector { return wrapper{c} },
			"three": func(c driver.Connector) driver.Connector { return wrapper{wrapper{wrapper{c}}} },
		} {
			t.Run(name, func(t *testing.T) {
				c, err := lockdb.OpenConnector(view.DSN(), lockdb.WithLogger(slog.New(slog.DiscardHandler)))
				require.NoError(t, err)
				db := sql.OpenDB(wrap(c))
				db.SetMaxOpenConns(1)
				out, key := newOutsider(t, view), dbtest.Key(t)
				lk := acquire(t, db, key)
				require.False(t, out.try(key))
				require.Equal(t, out.holder(key), askID(lk.Context(), t, view, db))
				tx, err := db.BeginTx(lk.Context(), nil)
				require.NoError(t, err)
				require.Equal(t, out.holder(key), askID(context.Background(), t, view, tx))
				tab.mustInsert(lk.Context(), tx, 1)
				require.ErrorContains(t, lk.Close(), "rolled back")
				require.Error(t, tx.Commit())
				require.True(t, out.try(key))

				err = lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
					return tab.insert(ctx, tx, 2)
				})
				require.NoError(t, err)
				require.Equal(t, []int{2}, tab.ids())
				_, err = tab.bare.Exec("DELETE FROM t")
				require.NoError(t, err)

				held := acquire(t, db, key)
				require.NoError(t, db.Close())
				require.ErrorIs(t, held.Close(), lockctx.ErrClosed)
				require.True(t, out.try(key))
			})
		}
	})
}

func TestADatabaseThatLockdbDidNotOpenIsAnErrorThatSaysHowToOpenIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		inner, err := innerConnector(s)
		require.NoError(t, err)
		opaque, err := lockdb.OpenConnector(s.DSN())
		require.NoError(t, err)
		for name, db := range map[string]*sql.DB{
			"the bare driver":         s.Open(t),
			"its connector":           sql.OpenDB(inner),
			"a wrapper of it":         sql.OpenDB(wrapper{noCloser{inner}}),
			"a wrapper without a Raw": sql.OpenDB(opaqueConnector{opaque}),
		} {
			db.SetMaxOpenConns(1)
			for range 3 { // the one connection comes back each time
				for _, acquire := range []acquirer{lockctx.Acquire, lockctx.TryAcquire} {
					ctx, cancel := context.WithTimeout(context.Background(), promptly)
					_, err := acquire(ctx, db, "the-key")
					cancel()
					require.ErrorContains(t, err, `sql.Open("lockdb", dsn)`, name)
					require.ErrorContains(t, err, "not opened by lockdb", name)
					require.NotErrorIs(t, err, lockctx.ErrNotAcquired)
				}
			}
			require.Zero(t, db.Stats().InUse)
			require.NoError(t, db.PingContext(testCtx(t)))
			require.NoError(t, db.Close())
		}
		require.NoError(t, opaque.Close())
	})
}

func TestANilDatabaseIsAnError(t *testing.T) {
	for name, err := range map[string]error{
		"Acquire":    second(lockctx.Acquire(context.Background(), nil, "k")),
		"TryAcquire": second(lockctx.TryAcquire(context.Background(), nil, "k")),
		"AcquireAll": second(lockctx.AcquireAll(context.Background(), nil, []string{"k"})),
		"Do":         lockctx.Do(context.Background(), nil, "k", nil),
		"InTx":       lockctx.InTx(context.Background(), nil, "k", nil, nil),
	} {
		require.ErrorContains(t, err, "nil", name)
	}
}

func TestTheFirstAcquireThroughAWrapperWhoseServerIsDownIsTheDriversError(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		c, err := lockdb.OpenConnector(s.DSNAt(deadAddr))
		require.NoError(t, err)
		db := sql.OpenDB(wrapper{c})
		defer func() { require.NoError(t, db.Close()) }()
		start := time.Now()
		_, err = lockctx.Acquire(context.Background(), db, "the-key")
		require.ErrorContains(t, err, "refused")
		require.Less(t, time.Since(start), promptly)
	})
}

// opaqueConnector is around lockdb's, but its connections do not tell.
type opaqueConnector struct{ driver.Connector }

func (c opaqueConnector) Driver() driver.Driver { return nil }

func (c opaqueConnector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return struct {
		driver.Conn
		driver.QueryerContext
		driver.Pinger
	}{inner, inner.(driver.QueryerContext), inner.(driver.Pinger)}, nil
}

type noCloser struct{ driver.Connector }

func (noCloser) Close() error { return nil }

func second[T any](_ T, err error) error { return err }
