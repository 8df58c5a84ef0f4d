package driver

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/sock"
)

// handshakes is a server that lets everyone in and keeps what they say first.
type handshakes struct {
	addr *net.TCPAddr

	mu   sync.Mutex // guards seen
	seen []map[string]string
}

func newHandshakes(t *testing.T) *handshakes {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h := &handshakes{addr: l.Addr().(*net.TCPAddr)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { h.serve(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return h
}

func (h *handshakes) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	b := pgproto3.NewBackend(c, c)
	msg, err := b.ReceiveStartupMessage()
	if err != nil {
		return
	}
	startup, ok := msg.(*pgproto3.StartupMessage)
	if !ok {
		return
	}
	h.mu.Lock()
	h.seen = append(h.seen, startup.Parameters)
	h.mu.Unlock()
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if b.Flush() != nil {
		return
	}
	for {
		if msg, err := b.Receive(); err != nil {
			return
		} else if _, ok := msg.(*pgproto3.Terminate); ok {
			return
		}
	}
}

func (h *handshakes) all() []map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]map[string]string(nil), h.seen...)
}

func (h *handshakes) dsn(more string) string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=app password=secret dbname=shop sslmode=disable %s", h.addr.Port, more)
}

func open(t *testing.T, c driver.Connector) (*stdlib.Conn, net.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ctx, captured := sock.Capture(ctx)
	dc, err := c.Connect(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = dc.Close() })
	return dc.(*stdlib.Conn), captured.Conn()
}

func postgresPair(t *testing.T, name string) (inner, lock driver.Connector) {
	t.Helper()
	p, err := newPlan(name, "", nil)
	require.NoError(t, err)
	inner, lock, err = postgresConnectors(p.dsn, p.settings.TTL)
	require.NoError(t, err)
	require.Same(t, stdlib.GetDefaultDriver(), inner.Driver())
	require.Same(t, stdlib.GetDefaultDriver(), lock.Driver())
	return inner, lock
}

func TestPostgresLockSessionsDifferInDiallerAndNameOnly(t *testing.T) {
	h := newHandshakes(t)
	t.Setenv("PGAPPNAME", "")
	inner, lock := postgresPair(t, h.dsn("search_path=shop lockdb_ttl=5s"))

	pooled, socket := open(t, inner)
	require.Nil(t, socket)
	session, socket := open(t, lock)
	require.NotNil(t, socket)

	want := map[string]string{"user": "app", "database": "shop", "search_path": "shop"}
	require.Equal(t, want, h.all()[0])
	want["application_name"] = programName()
	require.Equal(t, want, h.all()[1])
	require.Equal(t, pooled.Conn().Config().ConnString(), session.Conn().Config().ConnString())
	require.Equal(t, pooled.Conn().Config().DefaultQueryExecMode, session.Conn().Config().DefaultQueryExecMode)
	require.Equal(t, pooled.Conn().Config().ConnectTimeout, session.Conn().Config().ConnectTimeout)
}

func TestThePostgresNameThatTheDSNGivesStays(t *testing.T) {
	h := newHandshakes(t)
	_, lock := postgresPair(t, h.dsn("application_name=web"))
	open(t, lock)
	require.Equal(t, "web", h.all()[0]["application_name"])
}

func TestEveryHostAndFallbackIsDialledThroughSock(t *testing.T) {
	h := newHandshakes(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	_, lock := postgresPair(t, fmt.Sprintf("postgres://app@%s,%s/shop?sslmode=disable&connect_timeout=5", closed.Addr(), h.addr))
	_, socket := open(t, lock)
	require.Equal(t, h.addr.String(), socket.RemoteAddr().String())
}

func TestTheEnvironmentIsReadAtEachConnect(t *testing.T) {
	h := newHandshakes(t)
	t.Setenv("PGHOST", "127.0.0.1")
	t.Setenv("PGPORT", fmt.Sprint(h.addr.Port))
	t.Setenv("PGSSLMODE", "disable")
	inner, lock := postgresPair(t, "lockdb_dialect=postgres")
	for i, user := range []string{"one", "two"} {
		t.Setenv("PGUSER", user)
		open(t, inner)
		open(t, lock)
		require.Equal(t, user, h.all()[2*i]["user"])
		require.Equal(t, user, h.all()[2*i+1]["user"])
	}
}

func register(t *testing.T, h *handshakes, change func(*pgx.ConnConfig)) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(h.dsn(""))
	require.NoError(t, err)
	if change != nil {
		change(cfg)
	}
	name := stdlib.RegisterConnConfig(cfg)
	t.Cleanup(func() { stdlib.UnregisterConnConfig(name) })
	return name
}

func TestARegisteredConfigurationServesLockSessionsToo(t *testing.T) {
	h := newHandshakes(t)
	dials := 0
	inner, lock := postgresPair(t, register(t, h, func(cfg *pgx.ConnConfig) {
		dial := cfg.DialFunc
		cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials++
			return dial(ctx, network, addr)
		}
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	}))

	pooled, socket := open(t, inner)
	require.Nil(t, socket)
	session, socket := open(t, lock)
	require.NotNil(t, socket)
	require.Equal(t, 2, dials, "the pool's connection has told the configuration")
	require.Equal(t, programName(), h.all()[1]["application_name"])
	require.NotContains(t, h.all()[0], "application_name")
	require.Equal(t, pgx.QueryExecModeExec, session.Conn().Config().DefaultQueryExecMode)
	require.NotSame(t, pooled, session)
}

func TestARegisteredConfigurationIsAskedForWhereThePoolHasOpenedNothing(t *testing.T) {
	h := newHandshakes(t)
	_, lock := postgresPair(t, register(t, h, nil))
	_, socket := open(t, lock)
	require.NotNil(t, socket)
	open(t, lock)
	require.Len(t, h.all(), 3, "one to look, once")
}

func TestALockSessionHasNotificationsOfItsOwn(t *testing.T) {
	h := newHandshakes(t)
	inner, lock := postgresPair(t, register(t, h, nil))
	open(t, inner)
	cfg, err := lock.(*postgresLockConnector).config(context.Background())
	require.NoError(t, err)
	require.Nil(t, cfg.OnNotification, "else they would go to the pool's connection")

	inner, lock = postgresPair(t, register(t, h, func(cfg *pgx.ConnConfig) {
		cfg.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	}))
	open(t, inner)
	cfg, err = lock.(*postgresLockConnector).config(context.Background())
	require.NoError(t, err)
	require.NotNil(t, cfg.OnNotification, "the user's stays")
}

func TestAfterAFailureARegisteredConfigurationIsLookedUpAgain(t *testing.T) {
	h := newHandshakes(t)
	var registered *pgx.ConnConfig
	inner, lock := postgresPair(t, register(t, h, func(cfg *pgx.ConnConfig) { registered = cfg }))
	open(t, inner)

	registered.Host, registered.Port = "127.0.0.1", 1
	pool := inner.(*registeredConnector)
	pool.last.Load().Port = 1 // as if the server had moved
	_, err := lock.Connect(context.Background())
	require.Error(t, err)
	registered.Port = uint16(h.addr.Port)
	open(t, lock)
}

func TestAnUnregisteredNameIsAnErrorAtFirstUse(t *testing.T) {
	c, err := OpenConnector("registeredConnConfig987654")
	require.NoError(t, err)
	_, err = c.Connect(context.Background())
	require.ErrorContains(t, err, "no configuration is registered as registeredConnConfig987654")

	_, lock := postgresPair(t, "registeredConnConfig987654")
	_, err = lock.Connect(context.Background())
	require.ErrorContains(t, err, "no configuration is registered as registeredConnConfig987654")
}

func TestPostgresConfigIsTheBareDrivers(t *testing.T) {
	for _, tc := range dsnCases {
		if tc.form != formPostgresURL && tc.form != formKeyValue || strings.Contains(tc.dsn, "service=") || strings.Contains(tc.dsn, "rds.pem") {
			continue
		}
		want, err := pgx.ParseConfig(tc.dsn)
		require.NoError(t, err, tc.dsn)
		for _, name := range addParams(tc.dsn, tc.form, "lockdb_ttl=5s") {
			d, err := parseDSN(name, "")
			require.NoError(t, err)
			got, err := pgx.ParseConfig(d.inner)
			require.NoError(t, err)
			requireSamePostgres(t, want, got)
		}
	}
}

// requireSamePostgres compares what can be compared: configurations have functions.
func requireSamePostgres(t *testing.T, want, got *pgx.ConnConfig) {
	t.Helper()
	require.Equal(t, []any{want.Host, want.Port, want.Database, want.User, want.Password, want.ConnectTimeout, want.SSLNegotiation, want.DefaultQueryExecMode, want.StatementCacheCapacity},
		[]any{got.Host, got.Port, got.Database, got.User, got.Password, got.ConnectTimeout, got.SSLNegotiation, got.DefaultQueryExecMode, got.StatementCacheCapacity})
	require.Equal(t, want.RuntimeParams, got.RuntimeParams)
	require.Equal(t, want.TLSConfig == nil, got.TLSConfig == nil)
	require.Len(t, got.Fallbacks, len(want.Fallbacks))
	for i, f := range want.Fallbacks {
		g := got.Fallbacks[i]
		require.Equal(t, []any{f.Host, f.Port, f.TLSConfig == nil}, []any{g.Host, g.Port, g.TLSConfig == nil})
	}
}
