package sock_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lockdb/lockdb/internal/sock"
)

// bell counts the calls of a Watcher's function.
type bell struct {
	calls atomic.Int64
	first chan struct{}
}

func newBell() *bell { return &bell{first: make(chan struct{})} }

func (b *bell) ring() {
	if b.calls.Add(1) == 1 {
		close(b.first)
	}
}

func (b *bell) requireRung(t *testing.T) {
	t.Helper()
	select {
	case <-b.first:
	case <-time.After(patience):
		t.Fatal("not told")
	}
}

func watch(t *testing.T, c net.Conn) (*sock.Watcher, *bell) {
	t.Helper()
	b := newBell()
	w, err := sock.Watch(c, b.ring)
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w, b
}

// settle returns when the poller has handled the events that there were when it
// was called: those of a socket come in the order in which they happened, and so
// does the end of one more.
func settle(t *testing.T) {
	t.Helper()
	c, server := listenTCP(t).pair(t, nil)
	w, b := watch(t, c)
	require.NoError(t, server.Close())
	b.requireRung(t)
	w.Stop()
	w.Wait()
}

func requireNoPoller(t *testing.T) {
	t.Helper()
	require.False(t, sock.Polling())
	// A goroutine that has been joined may still be on its very last instructions.
	require.Eventually(t, func() bool { return !strings.Contains(stacks(), "(*poller).run") }, patience, time.Millisecond)
}

func stacks() string {
	all := make([]byte, 1<<20)
	return string(all[:runtime.Stack(all, true)])
}

var families = map[string]func(testing.TB) listener{"tcp": listenTCP, "unix": listenUnix}

func TestWatchTellsOnceThatThePeerHasClosed(t *testing.T) {
	for name, listen := range families {
		t.Run(name, func(t *testing.T) {
			c, server := listen(t).pair(t, nil)
			w, b := watch(t, c)
			require.NoError(t, server.Close())
			b.requireRung(t)
			require.NoError(t, c.Close())
			settle(t)
			w.Stop()
			w.Wait()
			require.EqualValues(t, 1, b.calls.Load())
			require.False(t, sock.Polling())
		})
	}
}

func TestWatchTellsThatThePeerSendsNoMore(t *testing.T) {
	for name, listen := range families {
		t.Run(name, func(t *testing.T) {
			c, server := listen(t).pair(t, nil)
			_, b := watch(t, c)
			require.NoError(t, server.(interface{ CloseWrite() error }).CloseWrite())
			b.requireRung(t)
		})
	}
}

func TestWatchTellsAReset(t *testing.T) {
	c, server := listenTCP(t).pair(t, nil)
	_, b := watch(t, c)
	require.NoError(t, server.(*net.TCPConn).SetLinger(0))
	require.NoError(t, server.Close())
	b.requireRung(t)
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestWatchTellsAnEndThatCameBeforeIt(t *testing.T) {
	for name, listen := range families {
		t.Run(name, func(t *testing.T) {
			c, server := listen(t).pair(t, nil)
			require.NoError(t, server.Close())
			_, b := watch(t, c)
			b.requireRung(t)
		})
	}
}

func TestWatchTellsAnEndBehindDataThatNobodyHasRead(t *testing.T) {
	c, server := listenTCP(t).pair(t, nil)
	_, b := watch(t, c)
	_, err := io.WriteString(server, "FATAL: terminating connection")
	require.NoError(t, err)
	require.NoError(t, server.Close())
	b.requireRung(t)
	all, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, "FATAL: terminating connection", string(all), "no byte was taken")
}

func TestWatchIsNotMovedByDataOrByOurClose(t *testing.T) {
	for name, listen := range families {
		t.Run(name, func(t *testing.T) {
			c, server := listen(t).pair(t, nil)
			w, b := watch(t, c)
			for range 100 {
				_, err := server.Write([]byte("x"))
				require.NoError(t, err)
				_, err = io.ReadFull(c, make([]byte, 1))
				require.NoError(t, err)
				_, err = c.Write([]byte("y"))
				require.NoError(t, err)
			}
			_, err := server.Write([]byte("left unread"))
			require.NoError(t, err)
			settle(t)
			require.Zero(t, b.calls.Load())

			require.NoError(t, c.Close())
			settle(t)
			w.Stop()
			w.Wait()
			require.Zero(t, b.calls.Load())
		})
	}
}

func TestWatchKeepsNothingOpen(t *testing.T) {
	c, server := listenTCP(t).pair(t, nil)
	_, _ = watch(t, c)
	require.NoError(t, c.Close())
	require.NoError(t, server.SetReadDeadline(time.Now().Add(patience)))
	_, err := server.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the peer sees our close while the Watcher is not stopped yet")
}

func TestWatchWorksUnderTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, key.Public(), key)
	require.NoError(t, err)
	serverConfig := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}

	c, server := listenTCP(t).pair(t, nil)
	_, b := watch(t, c)
	client := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	tlsServer := tls.Server(server, serverConfig)
	said := make(chan error, 1)
	go func() {
		_, err := io.WriteString(tlsServer, "hello")
		said <- err
	}()
	_, err = io.ReadFull(client, make([]byte, 5))
	require.NoError(t, err)
	require.NoError(t, <-said)
	settle(t)
	require.Zero(t, b.calls.Load())
	require.NoError(t, tlsServer.Close())
	b.requireRung(t)
}

func TestWatchFailsAndLeavesNothingBehind(t *testing.T) {
	closed, _ := listenTCP(t).pair(t, nil)
	require.NoError(t, closed.Close())
	_, err := sock.Watch(closed, func() { t.Error("called") })
	require.ErrorIs(t, err, net.ErrClosed)
	requireNoPoller(t)

	piped, other := net.Pipe()
	defer other.Close()
	defer piped.Close()
	_, err = sock.Watch(piped, func() { t.Error("called") })
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = sock.Watch(nil, func() { t.Error("called") })
	require.ErrorIs(t, err, errors.ErrUnsupported)
	requireNoPoller(t)

	c, server := listenTCP(t).pair(t, nil)
	w, b := watch(t, c)
	_, err = sock.Watch(c, func() { t.Error("called") })
	require.ErrorIs(t, err, unix.EEXIST)
	require.NoError(t, server.Close())
	b.requireRung(t)
	w.Stop()
	requireNoPoller(t)
}
