package driver

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dsnCase is a DSN without lockdb_ parameters: it must come through unchanged.
type dsnCase struct {
	name string
	dsn  string
	form form
}

var dsnCases = []dsnCase{
	{"URL", "postgres://app:secret@db.example.com:5432/shop?sslmode=verify-full", formPostgresURL},
	{"URL, long scheme", "postgresql://app:secret@db.example.com/shop", formPostgresURL},
	{"URL, escaped password", "postgres://app:p%40ss%2Fw%3Ard%3F%23%25@h:5432/db?sslmode=disable", formPostgresURL},
	{"URL, raw specials", "postgres://app:p?a#b&c=d!$()*+,;@h:5432/db?sslmode=disable", formPostgresURL},
	{"URL, several hosts", "postgres://app:secret@h1:5432,h2:5433,h3/db?target_session_attrs=read-write", formPostgresURL},
	{"URL, IPv6", "postgres://app:secret@[2001:db8::1]:5432/db", formPostgresURL},
	{"URL, IPv6 hosts", "postgres://app:secret@[::1],[fe80::1]:5433/db?sslmode=require", formPostgresURL},
	{"URL, unix socket escaped", "postgres://app@%2Fvar%2Frun%2Fpostgresql/db", formPostgresURL},
	{"URL, unix socket as parameter", "postgres:///db?host=/var/run/postgresql&user=app", formPostgresURL},
	{"URL, search path", "postgres://app@h/db?search_path=shop,public&application_name=web", formPostgresURL},
	{"URL, options", "postgres://app@h/db?options=-c%20statement_timeout%3D5s", formPostgresURL},
	{"URL, nothing", "postgres://", formPostgresURL},
	{"URL, only a query", "postgres://?host=h&dbname=db", formPostgresURL},
	{"URL, no path", "postgres://app:secret@h?sslmode=disable", formPostgresURL},
	{"URL, RDS", "postgres://app:secret@shop.abc123.eu-central-1.rds.amazonaws.com:5432/shop?sslmode=verify-full&sslrootcert=/etc/rds.pem", formPostgresURL},
	{"URL, pgx's own parameters", "postgres://app@h/db?default_query_exec_mode=simple_protocol&statement_cache_capacity=0", formPostgresURL},
	{"URL, email as parameter", "postgres://app:secret@h/db?application_name=me@example.com", formPostgresURL},
	{"URL, trailing ampersand", "postgres://app@h/db?sslmode=disable&", formPostgresURL},
	{"URL, database with @", "postgres://app:secret@h/my@db", formPostgresURL},

	{"keywords", "host=localhost port=5432 user=app password=secret dbname=shop sslmode=disable", formKeyValue},
	{"keywords, gorm", "host=localhost user=gorm password=gorm dbname=gorm port=9920 sslmode=disable TimeZone=Asia/Shanghai", formKeyValue},
	{"keywords, Cloud SQL socket", "host=/cloudsql/project:region:instance user=app password=secret database=shop", formKeyValue},
	{"keywords, quoted", `user=app password='it\'s a \\ secret = "x"' dbname='my db'`, formKeyValue},
	{"keywords, quotes without space", `user='app'password='secret'dbname='db'`, formKeyValue},
	{"keywords, spaces around =", "host = localhost  user= app\tdbname =db\n", formKeyValue},
	{"keywords, escaped space", `host=h password=a\ b\\ user=app`, formKeyValue},
	{"keywords, empty value", "host=h user=app password='' dbname=''", formKeyValue},
	{"keywords, several hosts", "host=h1,h2 port=5432,5433 user=app", formKeyValue},
	{"keywords, slashes and more in the password", "user=app password=a/b:c?d&e host=h", formKeyValue},
	{"keywords, password with @ and /", "user=app password=x@y/z host=h", formKeyValue},
	{"keywords, one", "dbname=shop", formKeyValue},
	{"keywords, service", "service=shop", formKeyValue},
	{"keywords, server setting", "host=h user=app lock_timeout=5s my.setting=1", formKeyValue},

	{"registered", "registeredConnConfig0", formRegistered},
	{"registered, later", "registeredConnConfig123", formRegistered},

	{"mysql", "app:secret@tcp(db.example.com:3306)/shop", formMySQL},
	{"mysql, parameters", "app:secret@tcp(db:3306)/shop?charset=utf8mb4&parseTime=True&loc=Local", formMySQL},
	{"mysql, escaped location", "app:secret@tcp(db:3306)/shop?loc=US%2FPacific&time_zone=%27Europe%2FParis%27", formMySQL},
	{"mysql, unix socket", "app:secret@unix(/var/run/mysqld/mysqld.sock)/shop", formMySQL},
	{"mysql, Cloud SQL socket", "app:secret@unix(/cloudsql/project:region:instance)/shop?parseTime=true", formMySQL},
	{"mysql, IPv6", "app:secret@tcp([de:ad:be:ef::ca:fe]:80)/shop?timeout=90s&collation=utf8mb4_unicode_ci", formMySQL},
	{"mysql, tcp6", "app:secret@tcp6([::1]:3306)/shop", formMySQL},
	{"mysql, no address", "app:secret@tcp/shop", formMySQL},
	{"mysql, unix, no address", "app@unix/shop", formMySQL},
	{"mysql, no network", "app:secret@/shop", formMySQL},
	{"mysql, only the database", "/shop", formMySQL},
	{"mysql, nothing", "/", formMySQL},
	{"mysql, empty query", "app@/shop?", formMySQL},
	{"mysql, registered network", "app:secret@cloudsql(project:instance)/shop", formMySQL},
	{"mysql, registered network with +", "app:secret@mysql+tcp(h:3306)/shop", formMySQL},
	{"mysql, every special character in the password", "app:p@ss:w/or?d#x%y&a=b c'(\"d)@tcp(h:3306)/shop?parseTime=true", formMySQL},
	{"mysql, our name in the password", "app:x?lockdb_ttl=1s&lockdb_nonsense=2@tcp(h:3306)/shop", formMySQL},
	{"mysql, scheme in the password", "app:https://x@tcp(h:3306)/shop", formMySQL},
	{"mysql, RDS IAM token", "app:h.rds.amazonaws.com:3306/?Action=connect&DBUser=app&X-Amz-Signature=0a1b@tcp(h.rds.amazonaws.com:3306)/shop?tls=true&allowCleartextPasswords=true", formMySQL},
	{"mysql, RDS", "app:secret@tcp(shop.abc123.eu-central-1.rds.amazonaws.com:3306)/shop?tls=skip-verify", formMySQL},
	{"mysql, attributes", "app@tcp(h)/shop?connectionAttributes=program_name:web,team:a", formMySQL},
	{"mysql, escaped database", "app@tcp(h)/a%2Fb", formMySQL},
	{"mysql, multi statements", "root:@tcp(127.0.0.1:3306)/test?multiStatements=true&interpolateParams=true", formMySQL},
	{"mysql, system variable", "app@tcp(h)/shop?tx_isolation=%27READ-COMMITTED%27&sql_mode=TRADITIONAL", formMySQL},
	{"mysql, parameter without value", "app@tcp(h)/shop?parseTime&a=b", formMySQL},
}

func TestADSNOfTodayComesThroughUnchanged(t *testing.T) {
	for _, tc := range dsnCases {
		t.Run(tc.name, func(t *testing.T) {
			d, err := parseDSN(tc.dsn, "")
			require.NoError(t, err)
			require.Equal(t, tc.form, d.form)
			require.Equal(t, tc.dsn, d.inner)
			require.Empty(t, d.params)

			d, err = parseDSN(tc.dsn, d.dialect)
			require.NoError(t, err)
			require.Equal(t, tc.form, d.form)
			require.Equal(t, tc.dsn, d.inner)
		})
	}
}

// addParams returns name with lockdb_ parameters at each place where they can be,
// for a DSN of the given form.
func addParams(name string, f form, params ...string) []string {
	switch f {
	case formRegistered, formEmpty:
		return nil
	case formKeyValue:
		ours := strings.Join(params, " ")
		return []string{ours + " " + name, name + " " + ours}
	}
	if f == formMySQL && !strings.Contains(name, "/") {
		return nil
	}
	ours := strings.Join(params, "&")
	start := queryStart(name, f)
	if start < 0 {
		return []string{name + "?" + ours}
	}
	head, query := name[:start], name[start:]
	if query == "" {
		return []string{head + ours}
	}
	out := []string{head + ours + "&" + query, head + query + "&" + ours}
	if a, b, ok := strings.Cut(query, "&"); ok {
		out = append(out, head+a+"&"+ours+"&"+b)
	}
	return out
}

// queryStart returns where the parameters begin, -1 if there are none.
func queryStart(name string, f form) int {
	switch f {
	case formMySQL:
		slash := strings.LastIndexByte(name, '/')
		if i := strings.IndexByte(name[slash:], '?'); i >= 0 {
			return slash + i + 1
		}
	case formPostgresURL:
		p := strings.SplitN(name, "://", 2)[1]
		if i := strings.IndexAny(p, "@/"); i >= 0 && p[i] == '@' {
			p = p[i+1:]
		}
		if _, rest, err := cutHosts(p); err == nil {
			if i := strings.IndexByte(rest, '?'); i >= 0 {
				return len(name) - len(rest) + i + 1
			}
		}
	}
	return -1
}

func TestParametersOfOursAreTakenOutAndNothingElse(t *testing.T) {
	for _, tc := range dsnCases {
		for _, with := range addParams(tc.dsn, tc.form, "lockdb_ttl=10s", "lockdb_namespace=shop") {
			t.Run(tc.name, func(t *testing.T) {
				d, err := parseDSN(with, "")
				require.NoError(t, err, with)
				require.Equal(t, tc.form, d.form)
				want := tc.dsn
				if tc.form == formKeyValue {
					want, d.inner = strings.TrimRight(want, asciiSpace), strings.TrimRight(d.inner, asciiSpace)
				}
				require.Equal(t, strings.TrimSuffix(want, "?"), d.inner, with)
				require.Equal(t, []param{{"ttl", "10s"}, {"namespace", "shop"}}, d.params)
			})
		}
	}
}

func TestParameterValuesAreDecodedAsTheFormHasIt(t *testing.T) {
	for _, tc := range []struct{ dsn, value string }{
		{"postgres://h/db?lockdb_namespace=a%3Ab", "a:b"},
		{"postgres://h/db?lockdb%5Fnamespace=a+b", "a+b"},
		{"app@/db?lockdb_namespace=a%3Ab", "a:b"},
		{"app@/db?lockdb_namespace=a+b", "a b"},
		{"mysql://h/db?lockdb_namespace=a%2Fb", "a/b"},
		{`host=h lockdb_namespace='a \'b\''`, "a 'b'"},
		{`host=h lockdb_namespace = a\ b`, "a b"},
		{"host=h lockdb_namespace=", ""},
		{"postgres://h/db?lockdb_namespace=", ""},
	} {
		d, err := parseDSN(tc.dsn, "")
		require.NoError(t, err, tc.dsn)
		require.Equal(t, []param{{"namespace", tc.value}}, d.params, tc.dsn)
	}
}

func TestParametersMayStandApart(t *testing.T) {
	d, err := parseDSN("lockdb_ttl=1s  host=h lockdb_raw=off user=u lockdb_pooler=session\tlockdb_namespace=x ", "")
	require.NoError(t, err)
	require.Equal(t, "host=h user=u", d.inner)
	require.Len(t, d.params, 4)

	d, err = parseDSN("u@/db?lockdb_ttl=1s&a=b&lockdb_raw=off&c=d&lockdb_namespace=x", "")
	require.NoError(t, err)
	require.Equal(t, "u@/db?a=b&c=d", d.inner)
	require.Len(t, d.params, 3)
}

func TestMySQLURL(t *testing.T) {
	for _, tc := range []struct{ dsn, like string }{
		{"mysql://app:secret@db.example.com:3307/shop?parseTime=true", "app:secret@tcp(db.example.com:3307)/shop?parseTime=true"},
		{"mysql://app:secret@db.example.com/shop", "app:secret@tcp(db.example.com:3306)/shop"},
		{"mysql://app:p%40ss%2Fw%3Ard@h/shop", "app:p@ss/w:rd@tcp(h:3306)/shop"},
		{"mysql://app:p@ss#!(x)@h/shop", "app:p@ss#!(x)@tcp(h:3306)/shop"},
		{"mysql://app:a+b@h/shop", "app:a+b@tcp(h:3306)/shop"},
		{"mysql://app@[::1]:3307/shop", "app@tcp([::1]:3307)/shop"},
		{"mysql://app@[::1]/shop", "app@tcp([::1]:3306)/shop"},
		{"mysql://app@%2Fvar%2Frun%2Fmysqld.sock/shop", "app@unix(/var/run/mysqld.sock)/shop"},
		{"mysql://app:secret@/shop", "app:secret@tcp(127.0.0.1:3306)/shop"},
		{"mysql://app@:3307/shop", "app@tcp(127.0.0.1:3307)/shop"},
		{"mysql://h", "tcp(h:3306)/"},
		{"mysql://h?parseTime=true", "tcp(h:3306)/?parseTime=true"},
		{"mysql://h/a%2Fb?loc=Europe/Paris", "tcp(h:3306)/a%2Fb?loc=Europe%2FParis"},
		{"mysql://app:secret@h/shop?tls=true", "app:secret@tcp(h:3306)/shop?tls=true"},
		// go-sql-driver's form behind the prefix
		{"mysql://app:p%40ss@tcp(h:3307)/shop?loc=Europe%2FParis", "app:p%40ss@tcp(h:3307)/shop?loc=Europe%2FParis"},
		{"mysql://app:a/b:c@d@tcp(h)/shop", "app:a/b:c@d@tcp(h)/shop"},
		{"mysql://app@unix(/tmp/mysql.sock)/shop", "app@unix(/tmp/mysql.sock)/shop"},
	} {
		for _, suffix := range []string{"", "lockdb_ttl=5s"} {
			name := tc.dsn
			if suffix != "" {
				if strings.Contains(name, "?") {
					name += "&" + suffix
				} else {
					name += "?" + suffix
				}
			}
			d, err := parseDSN(name, "")
			require.NoError(t, err, name)
			require.Equal(t, MySQL, d.dialect)
			got, err := mysqlConfig(d)
			require.NoError(t, err, name)
			like, err := parseDSN(tc.like, "")
			require.NoError(t, err)
			want, err := mysqlConfig(like)
			require.NoError(t, err)
			require.Equal(t, want, got, name)
		}
	}
}

func TestADSNOfNeitherServerShowsBothFormsAndNotItself(t *testing.T) {
	for _, name := range []string{
		"x",
		"hunter2",
		"app:hunter2",
		"app:hunter2@host",
		"sqlserver://app:hunter2@host:1433?database=shop",
		"cockroachdb://app:hunter2@host:26257/shop",
		"mongodb://app:hunter2@host/shop",
		"MYSQL://app:hunter2@host/shop",
		"Postgres://app:hunter2@host/shop",
		"jdbc:mysql://app:hunter2@host/shop",
		"server=localhost;user id=sa;password=hunter2;database=shop",
		"file:hunter2.db?cache=shared&mode=memory",
		"/tmp/hunter2/shop.db",
		"app:hunter2@host:3306/shop",
		"app:hunter2/shop",
		"app:hunter2(host)/shop",
		"app:hunter2@tcp(host:3306/shop",
		"registeredConnConfig",
		"registeredConnConfigX",
	} {
		_, err := OpenConnector(name)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "hunter2")
		require.Contains(t, err.Error(), postgresForms, name)
		require.Contains(t, err.Error(), mysqlForms, name)
	}
}

func TestWhereBothFormsParseTheDialectDecides(t *testing.T) {
	const both = "user=name:secret@tcp(h)/db"
	_, err := parseDSN(both, "")
	require.ErrorIs(t, err, errBoth)

	d, err := parseDSN(both, MySQL)
	require.NoError(t, err)
	require.Equal(t, formMySQL, d.form)
	d, err = parseDSN(both, Postgres)
	require.NoError(t, err)
	require.Equal(t, formKeyValue, d.form)

	d, err = parseDSN(both+"?lockdb_dialect=mysql", "")
	require.NoError(t, err)
	require.Equal(t, formMySQL, d.form)
	require.Equal(t, both, d.inner)
	d, err = parseDSN("lockdb_dialect=postgres "+both, "")
	require.NoError(t, err)
	require.Equal(t, formKeyValue, d.form)
	require.Equal(t, both, d.inner)
}

func TestTheDialectSaidMustBeThatOfTheDSN(t *testing.T) {
	for _, tc := range []struct {
		dsn   string
		named Dialect
		opts  []Option
	}{
		{"postgres://h/db", MySQL, nil},
		{"mysql://h/db", Postgres, nil},
		{"registeredConnConfig0", MySQL, nil},
		{"postgres://h/db?lockdb_dialect=mysql", "", nil},
		{"host=h lockdb_dialect=mysql", "", nil},
		{"u@/db?lockdb_dialect=postgres", "", nil},
		{"u@/db?lockdb_dialect=postgres", MySQL, nil},
		{"postgres://h/db", "", []Option{WithDialect(MySQL)}},
		{"u@/db", MySQL, []Option{WithDialect(Postgres)}},
		{"u@/db", "", []Option{WithDialect("oracle")}},
		{"u@/db?lockdb_dialect=oracle", "", nil},
		{"u@/db?lockdb_dialect=", "", nil},
	} {
		_, err := newPlan(tc.dsn, tc.named, tc.opts)
		require.Error(t, err, tc.dsn)
		t.Log(err)
	}
	p, err := newPlan("u@/db?lockdb_dialect=postgres", "", []Option{WithDialect(MySQL)})
	require.NoError(t, err, "a Go option wins")
	require.Equal(t, MySQL, p.dsn.dialect)
}

func TestPostgresFromTheEnvironmentAlone(t *testing.T) {
	t.Setenv("PGHOST", "env.example.com")
	t.Setenv("PGUSER", "env")
	for _, tc := range []struct {
		dsn   string
		named Dialect
	}{
		{"lockdb_dialect=postgres", ""},
		{"  lockdb_dialect=postgres lockdb_ttl=5s ", ""},
		{"", Postgres},
		{" \t", Postgres},
		{"postgres://", ""},
		{"postgres://?lockdb_ttl=5s", ""},
	} {
		p, err := newPlan(tc.dsn, tc.named, nil)
		require.NoError(t, err)
		require.Equal(t, Postgres, p.dsn.dialect)
		_, lock, err := postgresConnectors(p.dsn, p.settings.TTL)
		require.NoError(t, err)
		cfg, err := lock.(*postgresLockConnector).config(context.Background())
		require.NoError(t, err)
		require.Equal(t, "env.example.com", cfg.Host)
		require.Equal(t, "env", cfg.User)
	}
}

func TestFaultsOfADSNAreNamed(t *testing.T) {
	for _, tc := range []struct {
		dsn  string
		want string
	}{
		{"u@/db?lockdb_tll=5s", `unknown DSN parameter "lockdb_tll": the parameters are lockdb_busy_timeout, lockdb_dialect, lockdb_lease_table, lockdb_max_idle_sessions, lockdb_max_sessions, lockdb_namespace, lockdb_pooler, lockdb_raw, lockdb_ttl`},
		{"postgres://h/db?LOCKDB_TTL=5s", `unknown DSN parameter "LOCKDB_TTL"`},
		{"host=h lockdb_=5s", `unknown DSN parameter "lockdb_"`},
		{"u@/db?lockdb_ttl=5s&lockdb_ttl=6s", "the parameter lockdb_ttl twice"},
		{"host=h lockdb_ttl=5s lockdb_ttl=5s", "the parameter lockdb_ttl twice"},
		{"postgres://h/db?lockdb_ttl=5s&a=b&lockdb%5Fttl=5s", "the parameter lockdb_ttl twice"},
		{"u@/db?lockdb_ttl", `"lockdb_ttl" has no value`},
		{"u@/db?lockdb_ttl=%zz", `"lockdb_ttl" has an invalid percent-escape`},
		{"u@/db?lockdb_ttl=30", `lockdb_ttl: "30" is not a duration with a unit, such as 30s`},
		{"u@/db?lockdb_max_sessions=many", `lockdb_max_sessions: "many" is not a whole number`},
		{"u@/db?lockdb_namespace=a/b", "a '/' in a parameter: write it as %2F"},
		{"u:p@tcp(h)/db?a=b&lockdb_namespace=a/b", "a '/' in a parameter: write it as %2F"},
		{"postgres://h?lockdb_namespace=a@b", "a '@' in a parameter"},
		{"postgres://u:se@cret@h/db", "write '@' as %40"},
		{"postgres://u:12/cret@h:5432/db", "write '/' as %2F"},
		{"postgres://u@[::1/db", "no ']'"},
		{"host=h password= lockdb_ttl=5s", "write the value as ''"},
		{"host=h password='secret", "without its closing quote"},
		{"host=h password=my secret", "a word without '='"},
		{"host=h password=my secret user=u", "a word without '='"},
		{"mysql://u:se/cret@h/db", "'/' as %2F"},
		{"mysql://u:se?cret@h/db", "'?' as %3F"},
		{"mysql://u:12/cret@h:3306/db", "'/' as %2F"},
		{"mysql://u:%zz@h/db", "percent-escape"},
		{"mysql://u@h:x/db", "the host or the port"},
		{"mysql://u@::1/db", "the host or the port"},
	} {
		_, err := newPlan(tc.dsn, "", nil)
		require.ErrorContains(t, err, tc.want, tc.dsn)
		require.NotContains(t, err.Error(), "cret")
	}
}
