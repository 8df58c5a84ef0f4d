package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// Config is what a Connector is built from.
type Config struct {
	// Inner opens the sessions that database/sql pools.
	Inner driver.Connector
	// Lock opens lock sessions; nil means Inner. It differs from Inner in what
	// only lock sessions need: the dialler that reports its socket, keep-alive,
	// the name that a DBA sees.
	Lock driver.Connector
	// ReadTimeout is how long a lock session waits for an answer of the server
	// before it closes the connection; 0 means for ever, or not known.
	ReadTimeout time.Duration
	// Dialect speaks the server's lock SQL.
	Dialect dialect.Dialect
	// Driver opens other databases by their DSN, for wrappers that ask
	// (*sql.DB).Driver for it.
	Driver driver.DriverContext
	// Options are the user's settings.
	Options Options
}

// Connector opens the conns of one *sql.DB and owns its keeper. Closing the
// *sql.DB closes it.
type Connector struct {
	keeper *Keeper
	driver Driver
}

var (
	_ driver.Connector = (*Connector)(nil)
	_ io.Closer        = (*Connector)(nil)
)

// New returns a Connector for sql.OpenDB. It opens nothing.
func New(cfg Config) *Connector {
	c := &Connector{keeper: newKeeper(cfg)}
	c.driver = Driver{connector: c, opener: cfg.Driver}
	c.keeper.connector = c
	return c
}

// Connect returns a conn. It dials, unless ctx bears a lock or may hide that it
// does: when database/sql serves one who waited for a slot, it calls Connect
// with a context of its own. The conn then dials when it first needs to, so
// that work under a lock's context opens no second connection.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	dc := &conn{keeper: c.keeper}
	if c.keeper.locksHeld.Load() == 0 {
		if err := dc.dial(ctx); err != nil {
			return nil, err
		}
	}
	return dc.as(), nil
}

func (c *conn) as() driver.Conn {
	if c.keeper.dialect == dialect.Postgres {
		return pgConn{c}
	}
	return c
}

// Driver returns a *Driver, through which package lockctx finds the keeper.
func (c *Connector) Driver() driver.Driver { return &c.driver }

// Keeper returns the keeper of the locks taken through this connector.
func (c *Connector) Keeper() *Keeper { return c.keeper }

// Close releases all locks and closes their sessions, and then the inner
// connectors that can be closed. (*sql.DB).Close calls it.
func (c *Connector) Close() error {
	c.keeper.close()
	var errs []error
	if pool, ok := c.keeper.poolConnector.(io.Closer); ok {
		errs = append(errs, pool.Close())
	}
	if lock, ok := c.keeper.lockConnector.(io.Closer); ok && c.keeper.ownLockConnector {
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}

// Driver is what (*sql.DB).Driver returns.
type Driver struct {
	connector *Connector
	opener    driver.DriverContext
}

var _ driver.DriverContext = (*Driver)(nil)

// Open opens a conn of the database with that DSN; an empty one stands for the
// database whose driver it is.
func (d *Driver) Open(name string) (driver.Conn, error) {
	c, err := d.OpenConnector(name)
	if err != nil {
		return nil, err
	}
	return c.Connect(context.Background())
}

// OpenConnector returns a connector for that DSN; an empty one stands for the
// database whose driver it is.
func (d *Driver) OpenConnector(name string) (driver.Connector, error) {
	if name == "" || d.opener == nil {
		return d.connector, nil
	}
	return d.opener.OpenConnector(name)
}

// Connector returns the connector whose driver it is.
func (d *Driver) Connector() *Connector { return d.connector }

// KeeperOf returns the keeper of a *sql.DB that lockdb opened, also where other
// drivers wrap it, if the connections that they give to (*sql.Conn).Raw have a
// method Raw() driver.Conn. In that case the first call for a db takes a
// connection of the pool.
func KeeperOf(ctx context.Context, db *sql.DB) (*Keeper, error) {
	if db == nil {
		return nil, errors.New("lockdb: the *sql.DB is nil")
	}
	if d, ok := db.Driver().(*Driver); ok {
		return d.connector.keeper, nil
	}
	return wrappedKeeper(ctx, db)
}

// sessionConnector is behind Lock.DB: its conns have no session of their own.
type sessionConnector struct{ keeper *Keeper }

func (c sessionConnector) Connect(context.Context) (driver.Conn, error) {
	return (&conn{keeper: c.keeper, leash: true}).as(), nil
}

func (c sessionConnector) Driver() driver.Driver { return &c.keeper.connector.driver }
