package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// firstError opens name and connects under a context that has ended, so that
// nothing is dialled: every error that does not need a server comes up.
func firstError(name string, named Dialect) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p, err := newPlan(name, named, nil)
	if err != nil {
		return err
	}
	if p.dsn.form == formEmpty && p.dsn.dialect != Postgres {
		return errEmpty
	}
	connectors := mysqlConnectors
	if p.dsn.dialect == Postgres {
		connectors = postgresConnectors
	}
	inner, lock, err := connectors(p.dsn, p.settings.TTL)
	if err != nil {
		return err
	}
	var errs []error
	for range 2 {
		dc, err := inner.Connect(ctx)
		if err == nil {
			_ = dc.Close()
		}
		errs = append(errs, err)
		inner = lock
	}
	return errors.Join(errs...)
}

// everyText returns the texts of err and of all that it wraps, printed in each way.
func everyText(err error) string {
	if err == nil {
		return ""
	}
	text := fmt.Sprintf("%v %+v %q\n", err, err, err)
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		text += parse.ConnString
	}
	switch err := any(err).(type) { // it walks the tree itself
	case interface{ Unwrap() error }:
		text += everyText(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, e := range err.Unwrap() {
			text += everyText(e)
		}
	}
	return text
}

func TestNoErrorShowsThePassword(t *testing.T) {
	for _, name := range []string{
		// go-sql-driver's form
		"app:hunter2@tcp(h:3306)/db?parseTime=maybe",
		"app:hunter2@tcp(h:3306)/db?tls=nosuch",
		"app:hunter2@tcp(h:3306)/db?serverPubKey=nosuch",
		"app:hunter2@tcp(h:3306)/d%zzb",
		"app:hunter2@tcp(h:3306)/db?loc=Mars%2FOlympus",
		"app:hunter2@tcp(h:3306)/db?timeout=hunter2",
		"app:hunter2@tcp(h:3306)/db?strict=true",
		"app:hunter2@tcp(h:3306",
		"app:hunter2@nosuch/db",
		"app:hunter2@nosuch(h)/db",
		"app:hunter2/db",
		"app:hunter2(h)/db",
		"app:x/hunter2%zz@tcp(h:3306)",
		"app:x/y?tls=hunter2@tcp(h:3306)",
		"app:x/y?lockdb_ttl=hunter2@tcp(h:3306)",
		"app:x@hunter2/db",
		// URL
		"mysql://app:hunter2@h:port/db",
		"mysql://app:hunter2@h/db?tls=nosuch",
		"mysql://app:hunter2%zz@h/db",
		"mysql://app:1/hunter2@h:3306/db",
		"mysql://app:x?hunter2@h/db",
		"mysql://app:hunter2",
		// PostgreSQL URL
		"postgres://app:hunter2@h:port/db",
		"postgres://app:hunter2@h:1,h:2,h/db?port=1,2",
		"postgres://app:hunter2%zz@h/db",
		"postgres://app:hunter2 x@h/db",
		"postgres://app:hunter2@h/db?sslmode=nosuch",
		"postgres://app:hunter2@h/db?connect_timeout=soon",
		"postgres://app:hunter2@h/db?sslrootcert=/nosuch.pem&sslmode=verify-ca",
		"postgres://app:hunter2@h/db?target_session_attrs=nosuch",
		"postgres://app:hunter2@h/db?novalue",
		"postgres://app:x@hunter2@h/db",
		"postgres://app:x/hunter2@h/db",
		"postgres://app:1/hunter2@h:5432/db",
		"postgres://app:hunter2",
		"postgres://h/db?password=hunter2&sslmode=nosuch",
		"postgres://h/db?password=hunter2%zz",
		"postgres://h/db?pass%77ord=hunter2&sslpassword=hunter2&sslmode=nosuch",
		"postgres://app:hunter2@h/db?service=nosuch",
		"postgres://app:hunter2@[h/db",
		// key=value
		"host=h password=hunter2 sslmode=nosuch",
		"host=h password=hunter2 port=x",
		"host=h password='hunter2 sslmode=nosuch",
		"host=h password=my hunter2",
		"host=h password=my hunter2 user=x",
		"host=h password='x\\'hunter2' sslmode=nosuch",
		"host=h password=hunter2 service=nosuch",
		"host=h password=hunter2 statement_cache_capacity=x",
		"host=h sslpassword=hunter2 sslmode=nosuch",
		"host=h password=nosuch sslmode=nosuch",
		"password=hunter2 = x",
		"host=h password=hunter2 lockdb_nosuch=1",
		"host=h\x00 password=hunter2",
	} {
		for _, named := range []Dialect{"", MySQL, Postgres} {
			t.Run(name+"/"+string(named), func(t *testing.T) {
				err := firstError(name, named)
				require.Error(t, err)
				require.NotContains(t, everyText(err), "hunter2")
			})
		}
	}
}

func TestAnErrorThatIsSafeKeepsWhatTheDriverSays(t *testing.T) {
	err := firstError("app:hunter2@tcp(h:3306)/db?parseTime=maybe", "")
	require.EqualError(t, err, "lockdb: the MySQL DSN is not valid: invalid bool value: maybe")
	err = firstError("app:hunter2@tcp(h:3306/db", MySQL)
	require.EqualError(t, err, "lockdb: the MySQL DSN is not valid: invalid DSN: network address not terminated (missing closing brace)")
	err = firstError("postgres://app:hunter2@h/db?sslmode=nosuch", "")
	require.ErrorContains(t, err, "lockdb: the PostgreSQL DSN is not valid: failed to configure TLS (sslmode is invalid)")
	err = firstError("host=h password=hunter2 sslmode=verify-ca sslrootcert=/nosuch.pem", "")
	require.ErrorContains(t, err, "unable to read CA file")
	require.ErrorIs(t, err, os.ErrNotExist)
	err = firstError("postgres://app:hunter2@[::1]:1/db", "")
	require.ErrorIs(t, err, context.Canceled)
	var connect *pgconn.ConnectError
	require.ErrorAs(t, err, &connect)
	require.False(t, strings.Contains(err.Error(), "not valid"))
}
