package driver

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockdb/lockdb/conn"
)

// OpenConnector returns a connector for sql.OpenDB. The DSN is today's of
// go-sql-driver/mysql or pgx, with or without lockdb_ parameters; options win over
// parameters. It opens no connection.
//
// An error never shows the password. A DSN that is neither server's, an unknown or
// repeated lockdb_ parameter, and a setting out of bounds are errors here; so is
// what go-sql-driver finds wrong with a DSN. What pgx finds wrong is an error of the
// first use, as with the bare driver, which reads its environment only then. So is
// an empty DSN, unless it is said to be PostgreSQL's: then everything comes from the
// environment (PGHOST, …).
//
// The caller owns the connector. sql.OpenDB takes it over: db.Close closes it.
func OpenConnector(dsn string, opts ...Option) (*conn.Connector, error) {
	return openConnector(dsn, "", opts)
}

// openConnector is OpenConnector for a driver's name that says a dialect, or "".
func openConnector(name string, named Dialect, opts []Option) (*conn.Connector, error) {
	p, err := newPlan(name, named, opts)
	if err != nil {
		return nil, err
	}
	return p.connector()
}

// plan is what is to be opened, and how.
type plan struct {
	dsn      dsn
	named    Dialect // what the driver's name says, or ""
	settings *settings
}

func newPlan(name string, named Dialect, opts []Option) (plan, error) {
	byOption := newSettings()
	byOption.apply(opts)
	if err := byOption.dialect.validate(); err != nil {
		return plan{}, err
	}
	want := named
	if byOption.dialect != "" {
		if named != "" && named != byOption.dialect {
			return plan{}, fmt.Errorf("lockdb: WithDialect says %q, but the driver's name says %q", byOption.dialect, named)
		}
		want = byOption.dialect
	}
	d, err := parseDSN(name, want)
	if err != nil {
		return plan{}, err
	}
	s := newSettings()
	if err := applyParams(s, d.params); err != nil {
		return plan{}, err
	}
	if byOption.dialect == "" && s.dialect != "" && s.dialect != d.dialect {
		return plan{}, fmt.Errorf("lockdb: lockdb_dialect says %q, but by its form or the driver's name the DSN is %s's, which is written as %s",
			s.dialect, d.dialect.server(), d.dialect.forms())
	}
	s.apply(opts)
	if err := s.validate(); err != nil {
		return plan{}, err
	}
	return plan{dsn: d, named: named, settings: s}, nil
}

func (p plan) connector() (*conn.Connector, error) {
	var inner, lock driver.Connector
	var err error
	switch {
	case p.dsn.form == formEmpty && p.dsn.dialect != Postgres:
		inner = failingConnector{errEmpty}
	case p.dsn.dialect == Postgres:
		inner, lock, err = postgresConnectors(p.dsn, p.settings.TTL)
	default:
		inner, lock, err = mysqlConnectors(p.dsn, p.settings.TTL)
	}
	if err != nil {
		return nil, err
	}
	return connect(inner, lock, p.dsn.dialect, p.named, p.settings), nil
}

// NewConnector returns a connector for sql.OpenDB that opens its connections
// through inner, such as mysql.NewConnector's or stdlib.GetConnector's. Lock sessions
// come from inner too: where a socket cannot be watched, pings tell of a loss, and
// they bear the name that inner gives them.
//
// The dialect is WithDialect's, or else told from inner's driver; where it cannot be
// told, that is an error. So are a nil inner, one that is lockdb's already, and a
// setting out of bounds. Closing the connector closes inner, if that can be closed.
func NewConnector(inner driver.Connector, opts ...Option) (*conn.Connector, error) {
	s := newSettings()
	s.apply(opts)
	if err := s.validate(); err != nil {
		return nil, err
	}
	if inner == nil {
		return nil, errors.New("lockdb: NewConnector needs a connector, not nil")
	}
	if _, ok := inner.(*conn.Connector); ok {
		return nil, errors.New("lockdb: the connector is lockdb's already: give it to sql.OpenDB as it is")
	}
	dialect := s.dialect
	if dialect == "" {
		dialect = driverDialect(inner.Driver())
	}
	if dialect == "" {
		return nil, fmt.Errorf("lockdb: cannot tell what server the connector %T is for: say it with WithDialect(driver.MySQL) or WithDialect(driver.Postgres)", inner)
	}
	return connect(inner, nil, dialect, "", s), nil
}

// driverDialect tells the dialect of a driver, "" if it is not known.
func driverDialect(d driver.Driver) Dialect {
	switch d.(type) {
	case *mysql.MySQLDriver, mysql.MySQLDriver:
		return MySQL
	case *stdlib.Driver:
		return Postgres
	}
	return ""
}

// failingConnector fails at first use.
type failingConnector struct{ err error }

func (c failingConnector) Connect(context.Context) (driver.Conn, error) { return nil, c.err }
func (c failingConnector) Driver() driver.Driver                        { return &Driver{} }
