package driver

import (
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// FuzzDSNRoundTrip holds that a DSN comes through as it is; that parameters of ours,
// wherever they are put, are found, and what is left is that DSN; and that the inner
// driver's configuration is that of the bare DSN.
func FuzzDSNRoundTrip(f *testing.F) {
	for _, tc := range dsnCases {
		f.Add(tc.dsn)
	}
	for _, s := range []string{"mysql://u:p@h:1/db?a=b", "mysql://u@tcp(h)/db", "host=h password='", "postgres://[", "postgres://?&&", "@/?&=&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, want := range []Dialect{"", MySQL, Postgres} {
			d, err := parseDSN(name, want)
			if err != nil || len(d.params) > 0 {
				_, _ = newPlan(name, want, nil) // must not panic
				continue
			}
			if d.form == formMySQLURL || strings.HasPrefix(name, mysqlScheme) {
				require.Equal(t, strings.TrimPrefix(name, mysqlScheme), d.inner)
				_, _ = mysqlConfig(d)
				continue
			}
			require.Equal(t, name, d.inner)
			for _, with := range addParams(name, d.form, "lockdb_ttl=10s", "lockdb_namespace=shop") {
				if d.form == formKeyValue && (strings.HasSuffix(name, `\`) || strings.HasSuffix(strings.TrimRight(name, asciiSpace), "=")) {
					continue // the last value goes on with what is added
				}
				if queryStart(name, d.form) < 0 && d.form == formPostgresURL && !strings.Contains(name[len("postgres://"):], "/") && strings.Contains(name, "?") {
					continue
				}
				e, err := parseDSN(with, want)
				require.NoError(t, err, "%q", with)
				require.Equal(t, d.form, e.form, "%q", with)
				require.Equal(t, []param{{"ttl", "10s"}, {"namespace", "shop"}}, e.params, "%q", with)
				left, was := e.inner, name
				if queryStart(name, d.form) == len(name) {
					was = strings.TrimSuffix(name, "?")
				}
				if d.form == formKeyValue {
					left, was = strings.TrimLeft(trimRightSpace(left), asciiSpace), strings.TrimLeft(trimRightSpace(name), asciiSpace)
				}
				require.Equal(t, was, left, "%q", with)
				requireSameConfig(t, d, e)
			}
		}
	})
}

func requireSameConfig(t *testing.T, want, got dsn) {
	t.Helper()
	switch want.form {
	case formMySQL:
		a, errA := mysqlConfig(want)
		b, errB := mysqlConfig(got)
		require.Equal(t, errA == nil, errB == nil)
		if errA == nil {
			bare, err := mysql.ParseDSN(want.inner)
			require.NoError(t, err)
			require.Equal(t, bare, a)
			require.Equal(t, a, b)
		}
	case formPostgresURL, formKeyValue:
		if strings.Contains(want.inner, "file") || strings.Contains(want.inner, "ssl") || strings.Contains(want.inner, "%") {
			return // names a file, perhaps
		}
		a, errA := pgx.ParseConfig(want.inner)
		b, errB := pgx.ParseConfig(got.inner)
		require.Equal(t, errA == nil, errB == nil)
		if errA == nil {
			requireSamePostgres(t, a, b)
		}
	}
}

// FuzzNoErrorShowsThePassword holds that marks in a password, at its ends and around
// whatever it has in between, are in no error.
func FuzzNoErrorShowsThePassword(f *testing.F) {
	const mark = "hunter2"
	around := [][2]string{
		{"app:", "@tcp(h:3306)/db"},
		{"app:", "@tcp(h:3306)/db?tls=nosuch"},
		{"app:", "@/d%zz"},
		{"mysql://app:", "@h:3306/db?tls=nosuch"},
		{"mysql://app:", "@h:x/db"},
		{"postgres://app:", "@h:5432/db?sslmode=nosuch"},
		{"postgres://app:", "@h:x/db"},
		{"postgres://h/db?sslmode=nosuch&password=", ""},
		{"host=h sslmode=nosuch password='", "'"},
		{"host=h sslmode=nosuch password='", ""},
	}
	for i := range around {
		for _, s := range []string{"", "x", "@", "/", ":", "?", "#", "%", "&", "=", "%zz", " ", `\'`, "(", ")", "@h/", "/db?tls=", "?lockdb_ttl=", "&lockdb_x=", "]", "["} {
			f.Add(i, s)
		}
	}
	f.Fuzz(func(t *testing.T, i int, s string) {
		if i < 0 || i >= len(around) {
			return
		}
		a := around[i]
		if strings.HasSuffix(a[0], "&password=") && strings.Contains(strings.ToLower(s), "&"+paramPrefix) {
			return // the password has ended, and a parameter of ours with an odd name begins
		}
		name := a[0] + mark + s + mark + a[1]
		for _, named := range []Dialect{"", MySQL, Postgres} {
			p, err := newPlan(name, named, nil)
			if err == nil {
				switch p.dsn.dialect {
				case MySQL:
					_, err = mysqlConfig(p.dsn)
				case Postgres:
					if _, err = pgx.ParseConfig(p.dsn.inner); err != nil {
						err = p.dsn.redactPostgres(err)
					}
				}
			}
			require.NotContains(t, everyText(err), mark, "%q", name)
		}
	})
}
