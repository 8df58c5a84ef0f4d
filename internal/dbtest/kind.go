package dbtest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Kind is a kind of server.
type Kind string

const (
	MySQL     Kind = "mysql"
	MariaDB   Kind = "mariadb"
	Postgres  Kind = "postgres"
	PgBouncer Kind = "pgbouncer"
)

const serversEnv = "LOCKDB_TEST_SERVERS"

var kinds = []Kind{MySQL, MariaDB, Postgres, PgBouncer}

// Selected returns the kinds that LOCKDB_TEST_SERVERS names, by default all.
func Selected() ([]Kind, error) {
	names := strings.Fields(os.Getenv(serversEnv))
	if len(names) == 0 {
		return kinds, nil
	}
	var selected []Kind
	for _, name := range names {
		if !slices.Contains(kinds, Kind(name)) {
			return nil, fmt.Errorf("%s: unknown server %q: want some of %v", serversEnv, name, kinds)
		}
		selected = append(selected, Kind(name))
	}
	return selected, nil
}

func selected(tb testing.TB) []Kind {
	tb.Helper()
	ks, err := Selected()
	if err != nil {
		tb.Fatal(err)
	}
	return ks
}

// dsnEnv is the variable that holds the DSN of a running server.
func (k Kind) dsnEnv() string { return "LOCKDB_TEST_" + strings.ToUpper(string(k)) }

func (k Kind) isMySQL() bool { return k == MySQL || k == MariaDB }

var errMissing = errors.New("is not installed here")

// missing explains what to do about a server that is not installed.
func (k Kind) missing(what string) error {
	return fmt.Errorf("%s: %s %w: run scripts/install-servers, "+
		"or set %s to the DSN of a running server, or leave it out by %s=%q",
		k, what, errMissing, k.dsnEnv(), serversEnv, k.others())
}

func (k Kind) others() string {
	var names []string
	for _, other := range kinds {
		if other != k && (k != Postgres || other != PgBouncer) {
			names = append(names, string(other))
		}
	}
	return strings.Join(names, " ")
}
