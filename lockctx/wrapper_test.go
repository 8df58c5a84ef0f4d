package lockctx_test

import (
	"database/sql/driver"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockdb/lockdb/internal/dbtest"
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
