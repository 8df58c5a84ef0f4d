package dbtest

import (
	"fmt"
	"net"
	"net/url"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the bare driver "pgx"
)

// dsnWith returns dsn in its canonical form, with another address and database where those are
// not empty. Errors do not show the DSN, which may hold a password.
func dsnWith(k Kind, dsn, addr, database string) (string, error) {
	if k.isMySQL() {
		cfg, err := mysql.ParseDSN(dsn)
		if err != nil {
			return "", fmt.Errorf("%s: %s: want go-sql-driver's form user:password@tcp(host:port)/database", k, k.dsnEnv())
		}
		cfg.ParseTime = true
		if addr != "" {
			cfg.Net, cfg.Addr = "tcp", addr
		}
		if database != "" {
			cfg.DBName = database
		}
		return cfg.FormatDSN(), nil
	}
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Host == "" {
		return "", fmt.Errorf("%s: %s: want the form postgres://user:password@host:port/database", k, k.dsnEnv())
	}
	if addr != "" {
		u.Host = addr
	}
	if database != "" {
		u.Path = "/" + database
	}
	return u.String(), nil
}

// addrOf returns the "host:port" of a DSN that dsnWith returned.
func addrOf(k Kind, dsn string) string {
	if k.isMySQL() {
		cfg, err := mysql.ParseDSN(dsn)
		if err != nil {
			return ""
		}
		return cfg.Addr
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return ""
	}
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "5432")
	}
	return u.Host
}
