package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// database is the one that the DSN of a MySQL or MariaDB server names.
const database = "lockdb"

// findMySQL returns the beginning of mysqld's command line.
func findMySQL() ([]string, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	if argv := unpackedMySQL(filepath.Join(cache, "mysql")); argv != nil {
		return argv, nil
	}
	// MariaDB has a program of that name too.
	if path, ok := findProgram("mysqld"); ok {
		if version, err := versionOf(path); err == nil && !strings.Contains(version, "MariaDB") {
			return []string{path, "--no-defaults"}, nil
		}
	}
	return nil, MySQL.missing("mysqld")
}

// unpackedMySQL runs the mysqld that scripts/install-servers unpacked with the C library it was built
// for. Going through its loader needs no chroot, so no root either.
func unpackedMySQL(root string) []string {
	mysqld := filepath.Join(root, "usr/sbin/mysqld")
	if _, err := os.Stat(mysqld); err != nil {
		return nil
	}
	loaders, _ := filepath.Glob(filepath.Join(root, "usr/lib*/ld-linux*.so.*"))
	libraries, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*"))
	if len(loaders) == 0 || len(libraries) == 0 {
		return nil
	}
	return []string{
		loaders[0], "--library-path", strings.Join(libraries, ":"), mysqld, "--no-defaults",
		"--basedir=" + filepath.Join(root, "usr"),
		"--lc-messages-dir=" + filepath.Join(root, "usr/share/mysql"),
		"--character-sets-dir=" + filepath.Join(root, "usr/share/mysql/charsets"),
		"--plugin-dir=" + filepath.Join(root, "usr/lib/mysql/plugin"),
	}
}

func mysqlProgram() (argv, initialise, options []string, err error) {
	if argv, err = findMySQL(); err != nil {
		return nil, nil, nil, err
	}
	unsafe := []string{
		"--innodb-redo-log-capacity=8M", "--skip-innodb-doublewrite",
		"--auto-generate-certs=OFF", "--caching-sha2-password-auto-generate-rsa-keys=OFF",
	}
	initialise = append(append(argv[:len(argv):len(argv)], unsafe...), "--initialize-insecure")
	return argv, initialise, append(unsafe, "--mysqlx=OFF", "--innodb-validate-tablespace-paths=OFF",
		"--innodb-buffer-pool-load-at-startup=OFF", "--innodb-buffer-pool-dump-at-shutdown=OFF",
		"--performance-schema=ON", "--secure-file-priv=NULL"), nil
}

// launchMySQL starts a MySQL or a MariaDB server.
func launchMySQL(k Kind) (*Server, error) {
	program := mysqlProgram
	if k == MariaDB {
		program = mariadbProgram
	}
	argv, initialise, options, err := program()
	if err != nil {
		return nil, err
	}
	version, err := versionOf(argv[:len(argv):len(argv)]...)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", k, argv[0], err)
	}
	var user []string
	if runtime.GOOS != "windows" && os.Geteuid() == 0 {
		user = []string{"--user=root"}
	}
	prepare := func(dir string) error {
		return cloneTemplate(k, nil, version, func(data string) []string {
			return append(append(initialise[:len(initialise):len(initialise)], user...), "--datadir="+data)
		}, filepath.Join(dir, "data"))
	}
	configure := func(d *daemon, port int) error {
		d.driver = "mysql"
		d.dsn = fmt.Sprintf("root@tcp(%s)/?parseTime=true", loopback(port))
		d.stop = syscall.SIGTERM
		d.argv = append(append(argv[:len(argv):len(argv)], options...), user...)
		d.argv = append(d.argv,
			"--datadir="+filepath.Join(d.dir, "data"), "--port="+strconv.Itoa(port), "--bind-address=127.0.0.1",
			// Relative to the data folder: the path of a socket must be short.
			"--socket=my.sock", "--pid-file=my.pid",
			"--skip-log-bin", "--max-connections=500", "--innodb-flush-log-at-trx-commit=0",
			"--innodb-buffer-pool-size=16M", "--table-open-cache=400",
		)
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
	db, err := sql.Open("mysql", s.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+database); err != nil {
		return err
	}
	if s.dsn, err = dsnWith(s.kind, s.dsn, "", database); err != nil {
		return err
	}
	s.admin = s.dsn
	return nil
}
