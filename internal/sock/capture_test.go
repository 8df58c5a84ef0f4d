package sock_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/sock"
)

// dialled is a net.Conn that is told apart by its address.
type dialled struct{ net.Conn }

func TestCaptureRecordsTheLastSocketDialledUnderIt(t *testing.T) {
	var next net.Conn
	var nextErr error
	dial := sock.Dialer(func(context.Context, string, string) (net.Conn, error) { return next, nextErr }, 0)

	ctx, captured := sock.Capture(context.Background())
	require.Nil(t, captured.Conn())

	first, second := &dialled{}, &dialled{}
	for _, want := range []*dialled{first, second} {
		next = want
		got, err := dial(ctx, "tcp", "host:1")
		require.NoError(t, err)
		require.Same(t, want, got)
		require.Same(t, want, captured.Conn())
	}

	next, nextErr = nil, errors.New("refused")
	_, err := dial(ctx, "tcp", "host:2")
	require.Same(t, nextErr, err)
	require.Same(t, second, captured.Conn(), "a failed dial changes nothing")

	next, nextErr = &dialled{}, nil
	_, err = dial(context.Background(), "tcp", "host:3")
	require.NoError(t, err)
	require.Same(t, second, captured.Conn(), "another context's dial changes nothing")
}

func TestCaptureReachesThroughDerivedContextsAndTheInnermostWins(t *testing.T) {
	dial := sock.Dialer(func(context.Context, string, string) (net.Conn, error) { return &dialled{}, nil }, 0)
	outerCtx, outer := sock.Capture(context.Background())
	derived, cancel := context.WithTimeout(context.WithoutCancel(outerCtx), time.Hour)
	defer cancel()
	c, err := dial(derived, "tcp", "host:1")
	require.NoError(t, err)
	require.Same(t, c, outer.Conn())

	innerCtx, inner := sock.Capture(derived)
	d, err := dial(innerCtx, "tcp", "host:1")
	require.NoError(t, err)
	require.Same(t, d, inner.Conn())
	require.Same(t, c, outer.Conn())
}

func TestDialerGivesTheVerySocketOfTheNetPackage(t *testing.T) {
	l := listenTCP(t)
	ctx, captured := sock.Capture(context.Background())
	dial := sock.Dialer(nil, time.Minute)
	c, _ := l.pair(t, func(_ context.Context, network, addr string) (net.Conn, error) {
		return dial(ctx, network, addr)
	})
	require.IsType(t, (*net.TCPConn)(nil), c)
	require.Same(t, c, captured.Conn())
}

func TestDialerTakesSocketsThatHaveNothingToSet(t *testing.T) {
	l := listenUnix(t)
	c, _ := l.pair(t, sock.Dialer(nil, time.Minute))
	require.IsType(t, (*net.UnixConn)(nil), c)

	a, b := net.Pipe()
	defer b.Close()
	defer a.Close()
	dial := sock.Dialer(func(context.Context, string, string) (net.Conn, error) { return a, nil }, time.Minute)
	got, err := dial(context.Background(), "tcp", "host:1")
	require.NoError(t, err)
	require.Same(t, a, got)
}
