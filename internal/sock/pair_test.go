package sock_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds the wait for what must happen.
const patience = 10 * time.Second

// listener is a server whose accepted sockets the test gets one by one.
type listener struct {
	net.Listener
}

func listenTCP(tb testing.TB) listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = l.Close() })
	return listener{l}
}

func listenUnix(tb testing.TB) listener {
	tb.Helper()
	l, err := net.Listen("unix", filepath.Join(tb.TempDir(), "s"))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = l.Close() })
	return listener{l}
}

// pair returns the two ends of a new connection, dialled by dial (nil: the net
// package's). Both are closed when the test ends. Dial and accept are not tied to
// each other, so one listener serves one goroutine.
func (l listener) pair(tb testing.TB, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (client, server net.Conn) {
	tb.Helper()
	client, server, err := l.connect(dial)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
	})
	return client, server
}

func (l listener) connect(dial func(ctx context.Context, network, addr string) (net.Conn, error)) (client, server net.Conn, err error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	client, err = dial(context.Background(), l.Addr().Network(), l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	server, err = l.Accept()
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return client, server, nil
}
