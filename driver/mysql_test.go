package driver

import (
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/sock"
)

func mysqlLock(t *testing.T, name string) (*mysqlLockConnector, *mysql.Config) {
	t.Helper()
	p, err := newPlan(name, "", nil)
	require.NoError(t, err)
	_, lock, err := mysqlConnectors(p.dsn, p.settings.TTL)
	require.NoError(t, err)
	c := lock.(*mysqlLockConnector)
	return c, c.config()
}

func TestMySQLConfigIsTheBareDrivers(t *testing.T) {
	for _, tc := range dsnCases {
		if tc.form != formMySQL {
			continue
		}
		want, err := mysql.ParseDSN(tc.dsn)
		if err != nil {
			_, err = newPlanAndOpen(tc.dsn)
			require.Error(t, err, tc.dsn)
			continue
		}
		for _, name := range append(addParams(tc.dsn, tc.form, "lockdb_ttl=5s"), tc.dsn) {
			d, err := parseDSN(name, "")
			require.NoError(t, err)
			got, err := mysqlConfig(d)
			require.NoError(t, err)
			require.Equal(t, want, got, name)
		}
	}
}

func newPlanAndOpen(name string, opts ...Option) (driver.Connector, error) {
	return OpenConnector(name, opts...)
}

func TestMySQLLockSessionsDifferInDiallerNameAndLoggerOnly(t *testing.T) {
	c, got := mysqlLock(t, "app:secret@tcp(db:3306)/shop?parseTime=true&connectionAttributes=team:a")
	require.NotNil(t, got.DialFunc)
	require.Equal(t, "team:a,program_name:"+programName(), got.ConnectionAttributes)
	require.Equal(t, quietLogger{c.cfg.Logger}, got.Logger)
	got.DialFunc, got.ConnectionAttributes, got.Logger = nil, c.cfg.ConnectionAttributes, c.cfg.Logger
	require.Equal(t, c.cfg, got)
	require.Equal(t, &mysql.MySQLDriver{}, c.Driver())
}

func TestTheNameThatTheDSNGivesStays(t *testing.T) {
	_, got := mysqlLock(t, "app@/shop?connectionAttributes=a:b,program_name:web,c:d")
	require.Equal(t, "a:b,program_name:web,c:d", got.ConnectionAttributes)
	_, got = mysqlLock(t, "app@/shop?connectionAttributes=my_program_name:web")
	require.Equal(t, "my_program_name:web,program_name:"+programName(), got.ConnectionAttributes)
}

func TestNetworksThatTheProgramRegistersStayWithTheDriver(t *testing.T) {
	for _, network := range []string{"tcp", "tcp4", "tcp6", "unix"} {
		require.True(t, isPlainNetwork(network), network)
		mysql.RegisterDialContext(network, func(context.Context, string) (net.Conn, error) { return nil, errors.New("mine") })
		require.False(t, isPlainNetwork(network), network)
		mysql.DeregisterDialContext(network)
		require.True(t, isPlainNetwork(network), network)
	}
	_, got := mysqlLock(t, "app@cloudsql(project:instance)/shop")
	require.Nil(t, got.DialFunc)
}

func TestMySQLLockSessionsAreDialledThroughSock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for _, network := range []string{"tcp", "unix"} {
		addr := map[string]string{"tcp": "127.0.0.1:0", "unix": path}[network]
		l, err := net.Listen(network, addr)
		require.NoError(t, err)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.Close() // no handshake
			}
		}()
		c, _ := mysqlLock(t, "app@"+network+"("+l.Addr().String()+")/shop")
		c.cfg.Logger = &mysql.NopLogger{}
		ctx, captured := sock.Capture(context.Background())
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err = c.Connect(ctx)
		cancel()
		require.Error(t, err)
		require.NotNil(t, captured.Conn())
		require.NoError(t, l.Close())
	}
}

func TestSessionNames(t *testing.T) {
	require.Equal(t, "lockdb web-1 42", sessionName("web-1", 42))
	require.Equal(t, "lockdb a_b_c_d 42", sessionName("a b,cäd", 42))
	long := sessionName(strings.Repeat("x", 300), 4194304)
	require.Len(t, long, maxNameBytes)
	require.True(t, strings.HasSuffix(long, "x 4194304"))
	require.NotContains(t, programName(), ",")
}
