package sock_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lockdb/lockdb/internal/sock"
)

type sockopts struct{ on, idle, interval, count, userTimeout int }

func getsockopts(t *testing.T, c net.Conn) (o sockopts) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for _, get := range []struct {
			to          *int
			level, name int
		}{
			{&o.on, unix.SOL_SOCKET, unix.SO_KEEPALIVE},
			{&o.idle, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE},
			{&o.interval, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL},
			{&o.count, unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
			{&o.userTimeout, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT},
		} {
			*get.to, err = unix.GetsockoptInt(int(fd), get.level, get.name)
			if err != nil {
				return
			}
		}
	}))
	require.NoError(t, err)
	return o
}

var for30s = sockopts{on: 1, idle: 9, interval: 3, count: 3, userTimeout: 16500}

func TestKeepAliveSurvivesTheSetKeepAliveOfADriver(t *testing.T) {
	for _, tt := range []struct {
		ttl  time.Duration
		want sockopts
	}{
		{30 * time.Second, for30s},
		{3 * time.Second, sockopts{1, 1, 1, 1, 1500}},
		{time.Second, sockopts{1, 1, 1, 1, 600}},
		{0, sockopts{1, 15, 15, 9, 0}}, // the net package's own
	} {
		c, _ := listenTCP(t).pair(t, sock.Dialer(nil, tt.ttl))
		require.NoError(t, c.(*net.TCPConn).SetKeepAlive(true))
		require.Equal(t, tt.want, getsockopts(t, c), tt.ttl)
	}
}

func TestKeepAliveIsSetUnderAWrapperThatShowsItsSocket(t *testing.T) {
	next := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return tls.Client(c, &tls.Config{}), err
	}
	c, _ := listenTCP(t).pair(t, sock.Dialer(next, 30*time.Second))
	require.Equal(t, for30s, getsockopts(t, c.(*tls.Conn).NetConn()))
}

// serve plays the server's part of a connection's opening: it sends greeting and
// reads the first bytes of the client's answer, with which the driver has done to
// the socket what it does. It hangs up when then returns.
func serve(t *testing.T, l listener, greeting []byte, then func()) (wait func()) {
	var server sync.WaitGroup
	server.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := c.Write(greeting); err != nil {
			return
		}
		if _, err := io.ReadFull(c, make([]byte, 8)); err != nil {
			return
		}
		then()
	})
	return server.Wait
}

func TestKeepAliveAndCaptureHoldWithGoSQLDriver(t *testing.T) {
	l := listenTCP(t)
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.Timeout = "tcp", l.Addr().String(), patience
	cfg.DialFunc = sock.Dialer(nil, 30*time.Second)
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)

	// Protocol::HandshakeV10
	body := append([]byte{10}, "9.0.0\x00"...)
	body = binary.LittleEndian.AppendUint32(body, 1)                    // thread
	body = append(body, "12345678\x00"...)                              // first part of the salt
	body = append(body, 0x00, 0x82, 45, 2, 0, 0x08, 0x00, 21)           // protocol 4.1, secure connection, plugin auth
	body = append(body, make([]byte, 10)...)                            // reserved
	body = append(body, "123456789012\x00mysql_native_password\x00"...) // second part
	greeting := append([]byte{byte(len(body)), 0, 0, 0}, body...)

	ctx, captured := sock.Capture(context.Background())
	var got sockopts
	var closedThen bool
	wait := serve(t, l, greeting, func() {
		got = getsockopts(t, captured.Conn())
		closedThen = sock.DescriptorOf(captured.Conn()).Closed()
	})
	_, err = connector.Connect(ctx)
	require.Error(t, err)
	wait()
	require.Equal(t, for30s, got)
	require.False(t, closedThen)
	require.True(t, sock.DescriptorOf(captured.Conn()).Closed(), "the driver closes what it gives up")
}

func TestKeepAliveAndCaptureHoldWithPgx(t *testing.T) {
	l := listenTCP(t)
	cfg, err := pgx.ParseConfig("postgres://u@" + l.Addr().String() + "/d?sslmode=disable&connect_timeout=10")
	require.NoError(t, err)
	cfg.DialFunc = sock.Dialer(cfg.DialFunc, 30*time.Second)

	ctx, captured := sock.Capture(context.Background())
	var got sockopts
	wait := serve(t, l, nil, func() { got = getsockopts(t, captured.Conn()) })
	_, err = pgx.ConnectConfig(ctx, cfg)
	require.Error(t, err)
	wait()
	require.Equal(t, for30s, got)
	require.True(t, sock.DescriptorOf(captured.Conn()).Closed())
}

// vanish makes the machine of c disappear: what comes for c is dropped before TCP
// sees it, so nothing is ever acknowledged again, and no FIN or RST is sent.
func vanish(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	dropAll := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	require.NoError(t, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &dropAll})
	}))
	require.NoError(t, err)
}

func TestAPeerThatVanishesIsAnErrorAndToldWithinTheTTL(t *testing.T) {
	const ttl = 3 * time.Second
	for name, send := range map[string]string{
		"while we wait for an answer": "",
		"as we send":                  "SELECT 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed, told := vanished(t, ttl, send)
			for tries := 1; tries < 5 && max(failed, told) > ttl*8/10; tries++ { // a busy machine may be late once
				failed, told = vanished(t, ttl, send)
			}
			require.Less(t, failed, ttl*8/10)
			require.Less(t, told, ttl*8/10)
			t.Logf("error after %v, told after %v", failed, told)
		})
	}
}

// vanished tells how long after its peer vanished a read failed and the watch told of it.
func vanished(t *testing.T, ttl time.Duration, send string) (failed, told time.Duration) {
	t.Helper()
	c, server := listenTCP(t).pair(t, sock.Dialer(nil, ttl))
	tells := make(chan time.Time, 1)
	w, err := sock.Watch(c, func() { tells <- time.Now() })
	require.NoError(t, err)
	defer w.Stop()

	vanish(t, server)
	start := time.Now()
	_, err = io.WriteString(c, send)
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(start.Add(patience)))
	_, err = c.Read(make([]byte, 1))
	failed = time.Since(start)
	require.ErrorIs(t, err, syscall.ETIMEDOUT)
	select {
	case at := <-tells:
		return failed, at.Sub(start)
	case <-time.After(patience):
		t.Fatal("the watch did not tell")
		return 0, 0
	}
}
