package driver

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"

	"github.com/lockdb/lockdb/conn"
)

// The names under which the package registers its driver. ent and sqlx choose
// their dialect by the name of the driver (sqlx once it has been told what
// PostgresName stands for): hence the further two, which also say what the DSN is.
const (
	Name         = "lockdb"
	MySQLName    = "mysql-lockdb"
	PostgresName = "postgres-lockdb"
)

func init() {
	sql.Register(Name, &Driver{})
	sql.Register(MySQLName, &Driver{dialect: MySQL})
	sql.Register(PostgresName, &Driver{dialect: Postgres})
}

// Driver is what database/sql has under the registered names. The zero value is
// that of "lockdb". It is safe for concurrent use.
type Driver struct {
	dialect Dialect // "": the DSN tells

	mu     sync.Mutex                 // guards opened; nothing is opened under it
	opened map[string]*conn.Connector // by DSN; what Open has opened
}

var (
	_ driver.Driver        = (*Driver)(nil)
	_ driver.DriverContext = (*Driver)(nil)
)

// OpenConnector implements driver.DriverContext. It is what sql.Open uses; see the
// function OpenConnector.
func (d *Driver) OpenConnector(name string) (driver.Connector, error) {
	c, err := openConnector(name, d.dialect, nil)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Open implements driver.Driver, for wrappers that know no connectors. All
// connections to one DSN share a Connector, so that a lock is known to each of
// them; it lives as long as the process, since nobody says when it ends.
func (d *Driver) Open(name string) (driver.Conn, error) {
	d.mu.Lock()
	c := d.opened[name]
	d.mu.Unlock()
	if c == nil {
		var err error
		if c, err = openConnector(name, d.dialect, nil); err != nil {
			return nil, err
		}
		c = d.keep(name, c)
	}
	return c.Connect(context.Background())
}

// keep returns the Connector to use for name: c, or the one that came first.
func (d *Driver) keep(name string, c *conn.Connector) *conn.Connector {
	d.mu.Lock()
	first := d.opened[name]
	if first == nil {
		if d.opened == nil {
			d.opened = make(map[string]*conn.Connector)
		}
		d.opened[name], first = c, c
	}
	d.mu.Unlock()
	if first != c {
		_ = c.Close()
	}
	return first
}
