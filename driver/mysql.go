package driver

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockdb/lockdb/internal/sock"
)

// mysqlConnectors returns the connectors for pooled connections, which is the bare
// driver's own, and for lock sessions.
func mysqlConnectors(d dsn, ttl time.Duration) (inner, lock driver.Connector, err error) {
	cfg, err := mysqlConfig(d)
	if err != nil {
		return nil, nil, err
	}
	inner, err = mysql.NewConnector(cfg)
	if err != nil {
		return nil, nil, d.redactMySQL(err)
	}
	return inner, &mysqlLockConnector{cfg: cfg, ttl: ttl}, nil
}

// mysqlConfig is the configuration that the bare driver would have.
func mysqlConfig(d dsn) (*mysql.Config, error) {
	if d.form != formMySQLURL {
		return parseMySQLConfig(d, d.inner)
	}
	u, err := splitMySQLURL(d.inner)
	if err != nil {
		return nil, err
	}
	// The driver's parser sees the address, after which it names the server for
	// TLS, and the parameters; what could be cut in the wrong place is set here.
	text := u.network
	if u.addr != "" {
		text += "(" + u.addr + ")"
	}
	text += "/"
	if u.hasQuery {
		text += "?" + strings.ReplaceAll(u.query, "/", "%2F")
	}
	cfg, err := parseMySQLConfig(d, text)
	if err != nil {
		return nil, err
	}
	cfg.User, cfg.Passwd, cfg.DBName = u.user, u.password, u.dbname
	return cfg, nil
}

// parseMySQLConfig calls the driver's parser, which panics on the parameter
// strict, and redacts what it says.
func parseMySQLConfig(d dsn, text string) (cfg *mysql.Config, err error) {
	defer func() {
		if p := recover(); p != nil {
			cfg, err = nil, d.redactMySQL(fmt.Errorf("%v", p))
		}
	}()
	cfg, err = mysql.ParseDSN(text)
	if err != nil {
		return nil, d.redactMySQL(err)
	}
	return cfg, nil
}

// mysqlLockConnector opens lock sessions: as the inner connector does, but that
// it dials through package sock and says who it is.
type mysqlLockConnector struct {
	cfg *mysql.Config // not changed
	ttl time.Duration

	once  sync.Once // sets what follows, at the first Connect
	inner driver.Connector
	err   error
}

func (c *mysqlLockConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c.once.Do(func() { c.inner, c.err = mysql.NewConnector(c.config()) })
	if c.err != nil {
		return nil, c.err
	}
	return c.inner.Connect(ctx)
}

func (c *mysqlLockConnector) Driver() driver.Driver { return &mysql.MySQLDriver{} }

func (c *mysqlLockConnector) config() *mysql.Config {
	cfg := c.cfg.Clone()
	if cfg.Logger != nil {
		cfg.Logger = quietLogger{cfg.Logger}
	}
	cfg.ConnectionAttributes = withProgramName(cfg.ConnectionAttributes, programName())
	switch {
	case cfg.DialFunc != nil:
		cfg.DialFunc = sock.Dialer(cfg.DialFunc, c.ttl)
	case isPlainNetwork(cfg.Net):
		cfg.DialFunc = sock.Dialer(nil, c.ttl)
	}
	// A network of the user's stays with the driver: pings tell of a loss there.
	return cfg
}

// withProgramName adds program_name to attrs, "key:value,key:value…", unless it is
// there. name must have no ','.
func withProgramName(attrs, name string) string {
	for _, attr := range strings.Split(attrs, ",") {
		if key, _, ok := strings.Cut(attr, ":"); ok && key == "program_name" {
			return attrs
		}
	}
	if attrs != "" {
		attrs += ","
	}
	return attrs + "program_name:" + name
}

// isPlainNetwork tells whether go-sql-driver dials network itself. A program can
// register a dialler also for tcp and unix (mysql.RegisterDialContext), and the
// registry is private. So it is asked: under a context that has ended a net.Dialer
// fails before it does anything, with the address in its error.
func isPlainNetwork(network string) bool {
	cfg := mysql.NewConfig()
	cfg.Net = network
	switch network {
	case "tcp", "tcp4":
		cfg.Addr = "127.0.0.1:1"
	case "tcp6":
		cfg.Addr = "[::1]:1"
	case "unix":
		cfg.Addr = "/dev/null/lockdb"
	default:
		return false
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dc, err := connector.Connect(ctx)
	if err == nil {
		_ = dc.Close()
		return false
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && op.Addr != nil && op.Addr.String() == cfg.Addr &&
		errors.Is(op.Err, context.Canceled)
}
