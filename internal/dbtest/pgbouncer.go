package dbtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// PgBouncer starts a PgBouncer of the test's own before s, which must be a PostgreSQL. The settings have the
// form name=value; pool_mode=session is the default.
func (s *Server) PgBouncer(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	if s.kind != Postgres {
		tb.Fatalf("dbtest: PgBouncer before %s", s.kind)
	}
	needSelected(tb, PgBouncer)
	b, err := launchPgBouncer(s, settings)
	if err != nil {
		tb.Fatal(err)
	}
	return b.keep(tb)
}

// launchPgBouncer starts PgBouncer before the backend. Its DSN asks pgx for an execution mode that does
// not prepare statements by name, which need a PgBouncer from 1.21 on.
func launchPgBouncer(backend *Server, settings []string) (*Server, error) {
	pgbouncer, ok := findProgram("pgbouncer")
	if !ok {
		return nil, PgBouncer.missing("pgbouncer")
	}
	who, err := unprivileged()
	if err != nil {
		return nil, err
	}
	configure := func(d *daemon, port int) error {
		u, err := url.Parse(backend.dsn)
		if err != nil {
			return err
		}
		config, err := pgbouncerConfig(u, backend.Addr(), port, settings)
		if err != nil {
			return err
		}
		ini := filepath.Join(d.dir, "pgbouncer.ini")
		if err := os.WriteFile(ini, []byte(config), 0o600); err != nil {
			return err
		}
		if err := who.own(ini); err != nil {
			return err
		}
		d.driver = "pgx"
		d.dsn = fmt.Sprintf("postgres://%s@%s%s?sslmode=disable&default_query_exec_mode=exec",
			u.User.Username(), loopback(port), u.Path)
		d.stop = syscall.SIGTERM
		d.argv = []string{pgbouncer, ini}
		return nil
	}
	s, err := launchDaemon(PgBouncer, who, func(string) error { return nil }, configure)
	if err != nil {
		return nil, err
	}
	s.admin = backend.admin
	return s, nil
}

func pgbouncerConfig(backend *url.URL, addr string, port int, settings []string) (string, error) {
	host, backendPort, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	// With auth_type any the client's user is not looked at: the backend's is given here.
	database := fmt.Sprintf("* = host=%s port=%s user=%s", host, backendPort, backend.User.Username())
	if password, ok := backend.User.Password(); ok {
		database += " password='" + strings.ReplaceAll(password, "'", "''") + "'"
	}
	return fmt.Sprintf(`[databases]
%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
admin_users = %s
max_client_conn = 2000
default_pool_size = 40
ignore_startup_parameters = extra_float_digits
server_login_retry = 1
%s
`, database, port, backend.User.Username(), strings.Join(settings, "\n")), nil
}
