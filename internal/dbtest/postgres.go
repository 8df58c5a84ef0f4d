package dbtest

import (
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
)

// launchPostgres starts the latest PostgreSQL that is installed.
func launchPostgres(settings []string) (*Server, error) {
	postgres, ok := findProgram("postgres", "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
	if !ok {
		return nil, Postgres.missing("postgres")
	}
	who, err := unprivileged()
	if err != nil {
		return nil, err
	}
	prepare := func(dir string) error {
		return cloneTemplate(Postgres, who, postgres, func(data string) []string {
			return []string{
				filepath.Join(filepath.Dir(postgres), "initdb"), "-D", data, "-U", "postgres", "-A", "trust",
				"-E", "UTF8", "--locale=C", "--no-sync", "--wal-segsize=1",
			}
		}, filepath.Join(dir, "data"))
	}
	configure := func(d *daemon, port int) error {
		d.driver = "pgx"
		d.dsn = fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", loopback(port))
		d.stop = syscall.SIGINT
		d.argv = []string{postgres, "-D", filepath.Join(d.dir, "data"), "-p", strconv.Itoa(port)}
		for _, setting := range append([]string{
			"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=500", "shared_buffers=16MB",
			"fsync=off", "full_page_writes=off", "synchronous_commit=off", "autovacuum=off",
			// Inside the data folder, so that nothing of a killed server stays in /dev/shm.
			"dynamic_shared_memory_type=mmap",
		}, settings...) {
			d.argv = append(d.argv, "-c", setting)
		}
		return nil
	}
	return launchDaemon(Postgres, who, prepare, configure)
}
