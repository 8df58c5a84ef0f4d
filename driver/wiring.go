package driver

import (
	"database/sql/driver"

	"github.com/lockdb/lockdb/conn"
	"github.com/lockdb/lockdb/internal/dialect"
)

// connect puts a Connector together. lock is nil where lock sessions are opened as
// the pooled connections are.
func connect(inner, lock driver.Connector, d, named Dialect, s *settings) *conn.Connector {
	cfg := conn.Config{
		Inner:   intercept(inner, s.Interceptor),
		Lock:    intercept(lock, s.Interceptor),
		Dialect: dialect.MySQL, // also for an empty DSN, which opens nothing
		Driver:  &Driver{dialect: named},
		Options: s.Options,
	}
	if m, ok := lock.(*mysqlLockConnector); ok {
		cfg.ReadTimeout = m.cfg.ReadTimeout
	}
	if d == Postgres {
		cfg.Dialect = dialect.Postgres
	}
	return conn.New(cfg)
}
