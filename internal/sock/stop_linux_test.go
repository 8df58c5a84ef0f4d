package sock_test

import (
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/sock"
)

func TestStopLetsTheSocketBeWatchedAgain(t *testing.T) {
	l := listenTCP(t)
	c, server := l.pair(t, nil)
	other, _ := l.pair(t, nil)
	_, _ = watch(t, other) // keeps the poller, and so what is left in it
	var bells []*bell
	for range 3 {
		w, b := watch(t, c)
		w.Stop()
		w.Stop()
		bells = append(bells, b)
	}
	_, last := watch(t, c)
	require.NoError(t, server.Close())
	last.requireRung(t)
	for _, b := range bells {
		require.Zero(t, b.calls.Load())
	}
}

func TestStopMayBeCalledByTheFunctionAndDoesNotWaitForIt(t *testing.T) {
	c, server := listenTCP(t).pair(t, nil)
	watchers := make(chan *sock.Watcher, 1)
	stopped, release := make(chan struct{}), make(chan struct{})
	var returned atomic.Bool
	w, err := sock.Watch(c, func() {
		(<-watchers).Stop()
		close(stopped)
		<-release
		returned.Store(true)
	})
	require.NoError(t, err)
	watchers <- w
	require.NoError(t, server.Close())
	<-stopped
	w.Stop()
	require.False(t, returned.Load())
	requireNoPoller(t)
	close(release)
	w.Wait()
	require.True(t, returned.Load())
}

func TestAFunctionThatBlocksDelaysNoOther(t *testing.T) {
	l := listenTCP(t)
	c1, server1 := l.pair(t, nil)
	started, release := make(chan struct{}), make(chan struct{})
	w, err := sock.Watch(c1, func() {
		close(started)
		<-release
	})
	require.NoError(t, err)
	require.NoError(t, server1.Close())
	<-started
	c2, server2 := l.pair(t, nil)
	_, b := watch(t, c2)
	require.NoError(t, server2.Close())
	b.requireRung(t)
	close(release)
	w.Stop()
	w.Wait()
}

func TestThePollerEndsWithTheLastWatcherAndStartsAgain(t *testing.T) {
	l := listenTCP(t)
	requireNoPoller(t)
	for range 20 {
		c1, server1 := l.pair(t, nil)
		c2, _ := l.pair(t, nil)
		w1, b := watch(t, c1)
		w2, _ := watch(t, c2)
		w2.Stop()
		require.True(t, sock.Polling())
		require.NoError(t, server1.Close())
		b.requireRung(t)
		require.True(t, sock.Polling(), "a Watcher counts until it is stopped")
		w1.Stop()
		requireNoPoller(t)
	}
}

func TestThePollerRestsAndBlocksNoThreadAlsoAfterAnEnd(t *testing.T) {
	c, server := listenTCP(t).pair(t, nil)
	_, b := watch(t, c)
	rests := func() bool {
		for g := range strings.SplitSeq(stacks(), "\n\n") {
			if strings.Contains(g, "(*poller).run") {
				return strings.Contains(g, "[IO wait")
			}
		}
		return false
	}
	require.Eventually(t, rests, patience, time.Millisecond)
	require.NoError(t, server.Close())
	b.requireRung(t)
	require.Eventually(t, rests, patience, time.Millisecond)
}

// descriptor returns the number of c's descriptor.
func descriptor(t *testing.T, c net.Conn) (fd int) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(n uintptr) { fd = int(n) }))
	return fd
}

func TestStopDoesNotHitTheStrangerThatReusesTheDescriptor(t *testing.T) {
	l := listenUnix(t)
	c1, _ := l.pair(t, nil)
	w1, b1 := watch(t, c1)
	fd := descriptor(t, c1)
	require.NoError(t, c1.Close())

	var c2, server2 net.Conn
	for {
		c2, server2 = l.pair(t, nil)
		if descriptor(t, c2) == fd {
			break
		}
		if descriptor(t, server2) == fd {
			c2, server2 = server2, c2
			break
		}
	}
	_, b2 := watch(t, c2)
	w1.Stop()
	settle(t)
	require.Zero(t, b2.calls.Load())
	require.NoError(t, server2.Close())
	b2.requireRung(t)
	require.Zero(t, b1.calls.Load())
}

func TestThousandsOfSocketsEndAtOnce(t *testing.T) {
	const n = 2000
	l := listenUnix(t)
	servers, bells := make([]net.Conn, n), make([]*bell, n)
	for i := range n {
		var c net.Conn
		c, servers[i] = l.pair(t, nil)
		_, bells[i] = watch(t, c)
	}
	for _, s := range servers {
		require.NoError(t, s.Close())
	}
	for _, b := range bells {
		b.requireRung(t)
	}
	settle(t)
	for _, b := range bells {
		require.EqualValues(t, 1, b.calls.Load())
	}
}
