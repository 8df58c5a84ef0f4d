package dbtest

import (
	"database/sql"
	"testing"
	"time"
)

// adminTimeout bounds what dbtest itself asks of a server.
const adminTimeout = 20 * time.Second

// Server is a database server that a test may use.
type Server struct {
	kind Kind
	dsn  string
	// admin is the DSN of the server behind a pooler, otherwise dsn.
	admin string
	// database is set in views made by CreateDatabase.
	database string
	// daemon is nil for a server that somebody else started.
	daemon  *daemon
	private bool
}

// Kind tells the kind of server.
func (s *Server) Kind() Kind { return s.kind }

// IsMySQL tells whether the server is MySQL or MariaDB.
func (s *Server) IsMySQL() bool { return s.kind.isMySQL() }

// Driver is the name of the bare database/sql driver: "mysql" or "pgx".
func (s *Server) Driver() string {
	if s.IsMySQL() {
		return "mysql"
	}
	return "pgx"
}

// DSN is the server's data source name for the bare driver, over TCP.
func (s *Server) DSN() string { return s.dsn }

// DSNAt is DSN with another "host:port", as a relay has.
func (s *Server) DSNAt(addr string) string {
	dsn, err := dsnWith(s.kind, s.dsn, addr, "")
	if err != nil {
		panic(err) // The DSN was accepted when the server was made.
	}
	return dsn
}

// Addr is the server's "host:port".
func (s *Server) Addr() string { return addrOf(s.kind, s.dsn) }

// Open opens the server with the bare driver, as a client outside of lockdb would. The DB is closed
// when the test ends.
func (s *Server) Open(tb testing.TB) *sql.DB {
	tb.Helper()
	db, err := sql.Open(s.Driver(), s.dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}
