package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// database is the one that the DSN of a MySQL or MariaDB server names.
const database = "lockdb"

// mysqlProgram is an installed server of the MySQL family.
type mysqlProgram struct {
	server     string   // the path of the program
	argv       []string // the beginning of its command line
	initialise []string // the command line that makes a data folder
	options    []string // what only this server understands
}

// findMySQL looks for MySQL's mysqld.
func findMySQL() (p mysqlProgram, err error) {
	cache, err := cacheDir()
	if err != nil {
		return p, err
	}
	if !p.findUnpacked(filepath.Join(cache, "mysql")) && !p.findInstalled() {
		return p, MySQL.missing("mysqld")
	}
	unsafe := []string{
		"--innodb-redo-log-capacity=8M", "--skip-innodb-doublewrite",
		"--auto-generate-certs=OFF", "--caching-sha2-password-auto-generate-rsa-keys=OFF",
	}
	p.initialise = slices.Concat(p.argv, unsafe, []string{"--initialize-insecure"})
	p.options = append(unsafe, "--mysqlx=OFF", "--performance-schema=ON", "--secure-file-priv=NULL",
		"--innodb-validate-tablespace-paths=OFF", "--innodb-buffer-pool-load-at-startup=OFF",
		"--innodb-buffer-pool-dump-at-shutdown=OFF")
	return p, nil
}

// findUnpacked finds the mysqld that scripts/install-servers unpacked with the C library it was built for.
// Going through its loader needs no chroot, so no root either.
func (p *mysqlProgram) findUnpacked(root string) bool {
	p.server = filepath.Join(root, "usr/sbin/mysqld")
	if _, err := os.Stat(p.server); err != nil {
		return false
	}
	loaders, _ := filepath.Glob(filepath.Join(root, "usr/lib*/ld-linux*.so.*"))
	libraries, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*"))
	if len(loaders) == 0 || len(libraries) == 0 {
		return false
	}
	p.argv = []string{
		loaders[0], "--library-path", strings.Join(libraries, ":"), p.server, "--no-defaults",
		"--basedir=" + filepath.Join(root, "usr"),
		"--lc-messages-dir=" + filepath.Join(root, "usr/share/mysql"),
		"--character-sets-dir=" + filepath.Join(root, "usr/share/mysql/charsets"),
		"--plugin-dir=" + filepath.Join(root, "usr/lib/mysql/plugin"),
	}
	return true
}

// findInstalled finds a mysqld that is not MariaDB's, which has a program of that name too.
func (p *mysqlProgram) findInstalled() (ok bool) {
	if p.server, ok = findProgram("mysqld"); !ok {
		return false
	}
	version, err := exec.Command(p.server, "--version").Output()
	p.argv = []string{p.server, "--no-defaults"}
	return err == nil && !strings.Contains(string(version), "MariaDB")
}

// launchMySQL starts a MySQL or a MariaDB server.
func launchMySQL(k Kind, settings []string) (*Server, error) {
	find := findMySQL
	if k == MariaDB {
		find = findMariaDB
	}
	p, err := find()
	if err != nil {
		return nil, err
	}
	var user []string
	if os.Geteuid() == 0 {
		user = []string{"--user=root"} // They ask whether root is really meant.
	}
	prepare := func(dir string) error {
		if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
			return err
		}
		return cloneTemplate(k, nil, p.server, func(data string) []string {
			return slices.Concat(p.initialise, user, []string{"--datadir=" + data})
		}, filepath.Join(dir, "data"))
	}
	configure := func(d *daemon, port int) error {
		d.driver = "mysql"
		d.dsn = fmt.Sprintf("root@tcp(%s)/?parseTime=true", loopback(port))
		d.stop = syscall.SIGTERM
		d.argv = slices.Concat(p.argv, p.options, user, []string{
			"--datadir=" + filepath.Join(d.dir, "data"), "--port=" + strconv.Itoa(port), "--bind-address=127.0.0.1",
			// When MariaDB starts it removes temporary tables from here, other servers' too, which crash of it.
			"--tmpdir=" + filepath.Join(d.dir, "tmp"),
			// Relative to the data folder: the path of a socket must be short.
			"--socket=my.sock", "--pid-file=my.pid",
			"--skip-log-bin", "--max-connections=500", "--innodb-flush-log-at-trx-commit=0",
			"--innodb-buffer-pool-size=16M", "--table-open-cache=400",
		})
		for _, setting := range settings {
			d.argv = append(d.argv, "--"+setting)
		}
		return nil
	}
	s, err := launchDaemon(k, nil, prepare, configure)
	if err != nil {
		return nil, err
	}
	if err := s.addDatabase(); err != nil {
		s.daemon.end()
		return nil, fmt.Errorf("%s: %w", k, err)
	}
	return s, nil
}

// addDatabase makes the database that tests use unless they make their own.
func (s *Server) addDatabase() error {
	err := s.do(func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, "CREATE DATABASE "+database)
		return err
	})
	if err != nil {
		return err
	}
	s.dsn, err = dsnWith(s.kind, s.dsn, "", database)
	s.admin = s.dsn
	return err
}
