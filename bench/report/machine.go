package main

import (
	"bufio"
	"context"
	"database/sql"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // asked for its version
	_ "github.com/jackc/pgx/v5/stdlib"
)

type setting struct{ key, value string }

// configuration is what the figures stand for, in the form of benchmark results.
func configuration(env []string, now time.Time) []setting {
	settings := []setting{
		{"date", now.UTC().Format("2006-01-02")},
		{"machine", strconv.Itoa(runtime.NumCPU()) + " CPUs, " + firstOf("/proc/cpuinfo", "model name") + ", " + memory()},
		{"system", runtime.GOOS + "/" + runtime.GOARCH + kernel()},
		{"go", strings.TrimPrefix(runtime.Version(), "go")},
	}
	for _, s := range []struct{ key, env, driver string }{
		{"mysql", "LOCKDB_TEST_MYSQL", "mysql"}, {"mariadb", "LOCKDB_TEST_MARIADB", "mysql"}, {"postgresql", "LOCKDB_TEST_POSTGRES", "pgx"},
	} {
		settings = append(settings, setting{s.key, serverVersion(s.driver, lookUp(env, s.env))})
	}
	settings = append(settings, setting{"redis", redisVersion()})
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range []string{
			"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5", "github.com/ngrok/sqlmw", "github.com/XSAM/otelsql",
			"github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9", "go.etcd.io/etcd/server/v3",
		} {
			settings = append(settings, setting{"module", module + " " + moduleVersion(info, module)})
		}
	}
	return settings
}

func lookUp(env []string, key string) (value string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, key+"="); ok {
			value = v // the last one holds
		}
	}
	return value
}

func serverVersion(driver, dsn string) string {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return "unknown"
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	query := "SELECT VERSION()"
	if driver == "pgx" {
		query = "SHOW server_version"
	}
	var version string
	if err := db.QueryRowContext(ctx, query).Scan(&version); err != nil {
		return "unknown"
	}
	return version
}

func redisVersion() string {
	out, err := exec.Command("redis-server", "--version").Output()
	if m := regexp.MustCompile(`v=(\S+)`).FindSubmatch(out); err == nil && m != nil {
		return string(m[1])
	}
	return "unknown"
}

// moduleVersion is that of the benchmarks' module: the report imports few of them.
func moduleVersion(info *debug.BuildInfo, module string) string {
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func kernel() string {
	out, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return ", kernel " + strings.TrimSpace(string(out))
}

func memory() string {
	kib, err := strconv.Atoi(strings.TrimSuffix(firstOf("/proc/meminfo", "MemTotal"), " kB"))
	if err != nil {
		return "memory unknown"
	}
	return strconv.Itoa((kib+512*1024)/(1024*1024)) + " GiB"
}

// firstOf is the value of the first line "key: value" of a file.
func firstOf(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if k, v, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}
