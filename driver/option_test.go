package driver

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/conn"
)

type nullObserver struct{}

func (nullObserver) LockEvent(Event) {}

func TestWithoutOptionsTheDefaultsHold(t *testing.T) {
	p, err := newPlan("u@/db", "", nil)
	require.NoError(t, err)
	require.Equal(t, conn.DefaultOptions(), p.settings.Options)
	require.Equal(t, MySQL, p.dsn.dialect)
}

func TestParametersAndOptionsSetTheSame(t *testing.T) {
	byParam, err := newPlan("u@/db?lockdb_ttl=1m30s&lockdb_raw=off&lockdb_max_sessions=7&lockdb_max_idle_sessions=0&lockdb_namespace=shop"+
		"&lockdb_busy_timeout=0s&lockdb_pooler=session&lockdb_lease_table=app.leases&lockdb_dialect=mysql", "", nil)
	require.NoError(t, err)
	byOption, err := newPlan("u@/db", "", []Option{
		WithTTL(90 * time.Second), WithRawLocks(RawOff), WithMaxSessions(7), WithMaxIdleSessions(0), WithNamespace("shop"),
		WithBusyTimeout(0), WithPooler(PoolerSession), WithLeaseTable("app.leases"), WithDialect(MySQL), nil,
	})
	require.NoError(t, err)
	require.Equal(t, byParam.settings, byOption.settings)
	require.Equal(t, conn.Options{
		TTL: 90 * time.Second, RawLocks: RawOff, MaxSessions: 7, Namespace: "shop", Pooler: PoolerSession, LeaseTable: "app.leases",
	}, byOption.settings.Options)
}

func TestOptionsWinOverParameters(t *testing.T) {
	p, err := newPlan("host=h lockdb_ttl=5s lockdb_max_sessions=3", "", []Option{WithTTL(7 * time.Second)})
	require.NoError(t, err)
	require.Equal(t, 7*time.Second, p.settings.TTL)
	require.Equal(t, 3, p.settings.MaxSessions)
}

func TestOptionsWithoutParameter(t *testing.T) {
	l := slog.New(slog.DiscardHandler)
	p, err := newPlan("u@/db", "", []Option{WithInterceptor(sqlmw.NullInterceptor{}), WithObserver(nullObserver{}), WithLogger(l)})
	require.NoError(t, err)
	require.Equal(t, sqlmw.NullInterceptor{}, p.settings.Interceptor)
	require.Equal(t, nullObserver{}, p.settings.Observer)
	require.Same(t, l, p.settings.Logger)
}

func TestASettingOutOfBoundsIsAnErrorUnderBothItsNames(t *testing.T) {
	for _, tc := range []struct {
		opt   Option
		param string // "" if a DSN cannot say it
		want  string
	}{
		{WithTTL(0), "ttl=0s", "from 1s to 24h"},
		{WithTTL(999 * time.Millisecond), "ttl=999ms", "from 1s to 24h"},
		{WithTTL(-time.Second), "ttl=-1s", "from 1s to 24h"},
		{WithTTL(25 * time.Hour), "ttl=25h", "from 1s to 24h"},
		{WithMaxSessions(-1), "max_sessions=-1", "0, which is no limit, or more"},
		{WithMaxIdleSessions(-1), "max_idle_sessions=-1", "0 or more"},
		{WithBusyTimeout(-1), "busy_timeout=-1ns", "0, which does not wait, or more"},
		{WithRawLocks("keep"), "raw=keep", `unknown raw mode "keep"`},
		{WithRawLocks(""), "raw=", `unknown raw mode ""`},
		{WithPooler("transaction"), "pooler=transaction", `unknown pooler mode "transaction"`},
		{WithNamespace("Shop!"), "namespace=Shop!", "namespace"},
		{WithNamespace(strings.Repeat("x", 25)), "namespace=" + strings.Repeat("x", 25), "namespace"},
		{WithLeaseTable(""), "lease_table=", "table or schema.table"},
		{WithLeaseTable("a.b.c"), "lease_table=a.b.c", "table or schema.table"},
		{WithLeaseTable("1a"), "lease_table=1a", "table or schema.table"},
		{WithLeaseTable(strings.Repeat("x", 64)), "lease_table=" + strings.Repeat("x", 64), "table or schema.table"},
		{WithLeaseTable("x; drop table y"), "", "table or schema.table"},
		{WithLeaseTable("x\n"), "", "table or schema.table"},
		{WithDialect("oracle"), "dialect=oracle", `unknown dialect "oracle"`},
	} {
		_, err := OpenConnector("u@/db", tc.opt)
		require.ErrorContains(t, err, tc.want)
		_, err = NewConnector(fakeConnector{}, WithDialect(MySQL), tc.opt)
		require.ErrorContains(t, err, tc.want)
		if tc.param != "" {
			for _, name := range []string{"u@/db?", "host=h ", "postgres://h/db?", "mysql://h/db?"} {
				_, err = OpenConnector(name + "lockdb_" + tc.param)
				require.ErrorContains(t, err, tc.want, name)
			}
		}
	}
}

func TestTheBoundsThemselvesAreAllowed(t *testing.T) {
	for _, opt := range []Option{
		WithTTL(time.Second), WithTTL(24 * time.Hour), WithTTL(1500 * time.Millisecond), WithMaxSessions(0), WithMaxIdleSessions(0), WithBusyTimeout(0),
		WithRawLocks(RawPark), WithRawLocks(RawRefuse), WithRawLocks(RawOff), WithNamespace(""), WithNamespace(strings.Repeat("x", 24)), WithLeaseTable("a"), WithLeaseTable("public.lockdb_lease"),
		WithLeaseTable(strings.Repeat("x", 63) + "." + strings.Repeat("y", 63)),
	} {
		_, err := OpenConnector("u@/db", opt)
		require.NoError(t, err)
	}
}
