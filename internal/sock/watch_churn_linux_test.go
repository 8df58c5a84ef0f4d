package sock_test

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/sock"
)

// TestDescriptorsReusedInParallelNeverCallAWrongFunction opens, watches, ends and
// stops sockets on many goroutines, so that descriptor numbers pass between them
// and pollers come and go. Whether the peer closed decides whether f is called.
func TestDescriptorsReusedInParallelNeverCallAWrongFunction(t *testing.T) {
	const goroutines, rounds = 16, 300
	var all sync.WaitGroup
	for seed := range uint64(goroutines) {
		l := listenUnix(t)
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 0))
			for range rounds {
				c, server, err := l.connect(nil)
				if !assert.NoError(t, err) {
					return
				}
				churn(t, r, c, server)
				_ = c.Close()
				_ = server.Close()
			}
		})
	}
	all.Wait()
	requireNoPoller(t)
}

func churn(t *testing.T, r *rand.Rand, c, server net.Conn) {
	b := newBell()
	var stopped atomic.Bool
	w, err := sock.Watch(c, b.ring)
	if !assert.NoError(t, err) {
		return
	}
	peerCloses := func() { _ = server.Close() }
	weClose := func() { _ = c.Close() }
	stop := func() { w.Stop(); stopped.Store(true) }
	inParallel := func(fs ...func()) {
		var wg sync.WaitGroup
		for _, f := range fs {
			wg.Go(f)
		}
		wg.Wait()
	}

	least, most := int64(0), int64(0)
	switch r.IntN(6) {
	case 0:
		peerCloses()
		select {
		case <-b.first:
		case <-time.After(patience):
		}
		stop()
		least, most = 1, 1
	case 1:
		stop()
		peerCloses()
	case 2:
		stop()
		weClose()
	case 3:
		weClose()
		stop()
	case 4:
		inParallel(weClose, stop, stop)
	case 5:
		inParallel(peerCloses, weClose, stop)
		most = 1
	}
	assert.True(t, stopped.Load())
	w.Wait()
	got := b.calls.Load()
	assert.True(t, least <= got && got <= most, "called %d times, not %d to %d", got, least, most)
}

// TestStopIsFinalHoweverItMeetsThePeersClose has the two race, and f with them.
func TestStopIsFinalHoweverItMeetsThePeersClose(t *testing.T) {
	l := listenUnix(t)
	other, _ := l.pair(t, nil)
	_, _ = watch(t, other) // keeps the poller
	for range 1000 {
		c, server, err := l.connect(nil)
		require.NoError(t, err)
		var ran, final atomic.Bool
		w, err := sock.Watch(c, func() {
			assert.False(t, final.Load(), "called after Stop and Wait")
			ran.Store(true)
		})
		require.NoError(t, err)
		var closer sync.WaitGroup
		closer.Go(func() { _ = server.Close() })
		w.Stop()
		w.Wait()
		final.Store(true)
		before := ran.Load()
		closer.Wait()
		require.NoError(t, c.Close())
		require.Equal(t, before, ran.Load())
	}
}
