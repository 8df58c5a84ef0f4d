package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

// Each runs fn as a subtest on the shared servers: mysql, mariadb and postgres, those of them that
// are selected.
func Each(t *testing.T, fn func(t *testing.T, s *Server)) {
	t.Helper()
	ran := false
	for _, k := range selected(t) {
		if k != PgBouncer {
			ran = true
			t.Run(string(k), func(t *testing.T) { fn(t, Shared(t, k)) })
		}
	}
	if !ran {
		t.Skip(serversEnv + " leaves out mysql, mariadb and postgres")
	}
}

// Shared returns the server of kind k that all tests of the run share. It skips the test only if
// LOCKDB_TEST_SERVERS leaves k out.
func Shared(tb testing.TB, k Kind) *Server {
	tb.Helper()
	needSelected(tb, k)
	s, err := shared(k)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func needSelected(tb testing.TB, k Kind) {
	tb.Helper()
	if !slices.Contains(selected(tb), k) {
		tb.Skipf("%s leaves out %s", serversEnv, k)
	}
}

type sharedServer struct {
	once   sync.Once
	server *Server
	err    error
}

// Nothing stops a shared server: its supervisor ends it with the process.
var sharedServers = map[Kind]*sharedServer{MySQL: {}, MariaDB: {}, Postgres: {}, PgBouncer: {}}

func shared(k Kind) (*Server, error) {
	e := sharedServers[k]
	e.once.Do(func() {
		if dsn := os.Getenv(k.dsnEnv()); dsn != "" {
			e.server, e.err = existing(k, dsn)
			return
		}
		e.server, e.err = launch(k, nil)
	})
	return e.server, e.err
}

// existing is a running server that the environment names.
func existing(k Kind, dsn string) (*Server, error) {
	dsn, err := dsnWith(k, dsn, "", "")
	if err != nil {
		return nil, err
	}
	s := &Server{kind: k, dsn: dsn, admin: dsn}
	if backend := os.Getenv(Postgres.dsnEnv()); k == PgBouncer && backend != "" {
		s.admin = backend // It is taken to be the one behind.
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	if err := ping(ctx, s.Driver(), dsn); err != nil {
		return nil, fmt.Errorf("%s: the server that %s names, at %s, does not answer: %w", k, k.dsnEnv(), s.Addr(), err)
	}
	return s, nil
}

// launch starts a server of kind k, PgBouncer before the shared PostgreSQL.
func launch(k Kind, settings []string) (*Server, error) {
	switch k {
	case PgBouncer:
		backend, err := shared(Postgres)
		if err != nil {
			return nil, err
		}
		return launchPgBouncer(backend, append([]string{"pool_mode=transaction"}, settings...))
	case Postgres:
		return launchPostgres(settings)
	default:
		return launchMySQL(k, settings)
	}
}

func ping(ctx context.Context, driver, dsn string) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}

// Start starts the selected shared servers, those that the environment does not name already, and
// returns the variables that name them. stop ends them; so does the end of the process.
func Start() (env []string, stop func(), err error) {
	ks, err := Selected()
	if err != nil {
		return nil, nil, err
	}
	errs := make([]error, len(ks))
	var wg sync.WaitGroup
	for i, k := range ks {
		wg.Go(func() { _, errs[i] = shared(k) })
	}
	wg.Wait()
	stop = func() {
		for _, e := range sharedServers {
			if e.server != nil && e.server.daemon != nil {
				e.server.daemon.end()
			}
		}
	}
	for i, k := range ks {
		if errs[i] != nil {
			stop()
			return nil, nil, errs[i]
		}
		env = append(env, k.dsnEnv()+"="+sharedServers[k].server.dsn)
	}
	return env, stop, nil
}
