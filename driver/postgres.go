package driver

import (
	"context"
	"database/sql/driver"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockdb/lockdb/internal/sock"
)

// postgresConnectors returns the connectors for pooled connections, which is that
// of sql.Open("pgx", …), and for lock sessions. Like the bare driver they parse
// the DSN, and read the environment and the files that it names, at each Connect.
func postgresConnectors(d dsn, ttl time.Duration) (inner, lock driver.Connector, err error) {
	pgxDriver, ok := stdlib.GetDefaultDriver().(driver.DriverContext)
	if !ok {
		return nil, nil, fmt.Errorf("lockdb: pgx's driver is a %T without OpenConnector", stdlib.GetDefaultDriver())
	}
	bare, err := pgxDriver.OpenConnector(d.inner)
	if err != nil {
		return nil, nil, d.redactPostgres(err)
	}
	pool := &postgresConnector{inner: bare, dsn: d}
	if d.form == formRegistered {
		registered := &registeredConnector{postgresConnector: pool}
		return registered, &postgresLockConnector{pool: pool, ttl: ttl, config: registered.config, failed: registered.forget}, nil
	}
	return pool, &postgresLockConnector{
		pool: pool, ttl: ttl,
		config: func(context.Context) (*pgx.ConnConfig, error) { return pgx.ParseConfig(d.inner) },
		failed: func() {},
	}, nil
}

// postgresConnector is the bare driver's, but for errors that show the DSN.
type postgresConnector struct {
	inner driver.Connector
	dsn   dsn
}

func (c *postgresConnector) Connect(ctx context.Context) (driver.Conn, error) {
	dc, err := c.inner.Connect(ctx)
	if err != nil {
		return nil, c.dsn.redactPostgres(err)
	}
	return dc, nil
}

func (c *postgresConnector) Driver() driver.Driver { return c.inner.Driver() }

// registeredConnector opens what stdlib.RegisterConnConfig registered under a
// name. pgx's registry is private, but a connection tells its configuration: the
// last one's is kept for the lock sessions, which need another dialler.
type registeredConnector struct {
	*postgresConnector
	last atomic.Pointer[pgx.ConnConfig]
}

func (c *registeredConnector) Connect(ctx context.Context) (driver.Conn, error) {
	dc, err := c.postgresConnector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c.note(dc)
	return dc, nil
}

// note keeps the configuration of dc and returns it; nil if dc does not tell.
func (c *registeredConnector) note(dc driver.Conn) *pgx.ConnConfig {
	pg, ok := dc.(*stdlib.Conn)
	if !ok {
		return nil
	}
	cfg := pg.Conn().Config() // a copy
	if isPgxHandler(cfg.OnNotification) {
		cfg.OnNotification = nil // that connection's own: each sets one if there is none
	}
	c.last.Store(cfg)
	return cfg
}

// config returns a copy of the registered configuration. Where no connection has
// been opened yet it opens one and closes it.
func (c *registeredConnector) config(ctx context.Context) (*pgx.ConnConfig, error) {
	cfg := c.last.Load()
	if cfg == nil {
		dc, err := c.postgresConnector.Connect(ctx)
		if err != nil {
			return nil, err
		}
		cfg = c.note(dc)
		_ = dc.Close()
	}
	if cfg == nil {
		return nil, fmt.Errorf("lockdb: the connection that pgx opened for %s does not tell its configuration", c.dsn.inner)
	}
	return cfg.Copy(), nil
}

// forget makes the next lock session look again: the program may have changed the
// configuration that it registered, a password for instance.
func (c *registeredConnector) forget() { c.last.Store(nil) }

// isPgxHandler tells whether h is what pgx puts in where the user has no handler.
func isPgxHandler(h pgconn.NotificationHandler) bool {
	if h == nil {
		return false
	}
	fn := runtime.FuncForPC(reflect.ValueOf(h).Pointer())
	return fn != nil && strings.HasSuffix(fn.Name(), "pgx/v5.(*Conn).bufferNotifications-fm")
}

// postgresLockConnector opens lock sessions: as pool does, but that it dials
// through package sock and says who it is.
type postgresLockConnector struct {
	pool   *postgresConnector
	ttl    time.Duration
	config func(context.Context) (*pgx.ConnConfig, error) // the caller may change it
	failed func()                                         // called when Connect has failed
}

func (c *postgresLockConnector) Connect(ctx context.Context) (driver.Conn, error) {
	cfg, err := c.config(ctx)
	if err != nil {
		return nil, c.pool.dsn.redactPostgres(err)
	}
	// All hosts and fallbacks are dialled by this one function.
	cfg.DialFunc = sock.Dialer(sock.DialFunc(cfg.DialFunc), c.ttl)
	if cfg.RuntimeParams["application_name"] == "" {
		if cfg.RuntimeParams == nil {
			cfg.RuntimeParams = make(map[string]string, 1)
		}
		cfg.RuntimeParams["application_name"] = programName()
	}
	dc, err := stdlib.GetConnector(*cfg).Connect(ctx)
	if err != nil {
		c.failed()
		return nil, c.pool.dsn.redactPostgres(err)
	}
	return dc, nil
}

func (c *postgresLockConnector) Driver() driver.Driver { return c.pool.Driver() }
