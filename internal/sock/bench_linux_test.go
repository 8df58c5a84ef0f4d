package sock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/sock"
)

func benchmarkWatchStop(b *testing.B, others int) {
	l := listenUnix(b)
	for range others {
		c, _ := l.pair(b, nil)
		w, err := sock.Watch(c, func() {})
		require.NoError(b, err)
		b.Cleanup(w.Stop)
	}
	c, _ := l.pair(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		w, err := sock.Watch(c, func() {})
		if err != nil {
			b.Fatal(err)
		}
		w.Stop()
	}
}

func BenchmarkWatchStop(b *testing.B) {
	b.Run("beside one other", func(b *testing.B) { benchmarkWatchStop(b, 1) })
	b.Run("beside a thousand others", func(b *testing.B) { benchmarkWatchStop(b, 1000) })
	b.Run("alone, with the poller's start and end", func(b *testing.B) { benchmarkWatchStop(b, 0) })
}

func BenchmarkFromThePeersCloseToTheCall(b *testing.B) {
	l := listenTCP(b)
	for b.Loop() {
		b.StopTimer()
		c, server, err := l.connect(nil)
		require.NoError(b, err)
		told := make(chan struct{})
		w, err := sock.Watch(c, func() { close(told) })
		require.NoError(b, err)
		b.StartTimer()
		_ = server.Close()
		<-told
		b.StopTimer()
		w.Stop()
		_ = c.Close()
		b.StartTimer()
	}
}

func BenchmarkClosed(b *testing.B) {
	c, _ := listenTCP(b).pair(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		if sock.DescriptorOf(c).Closed() {
			b.Fatal("closed")
		}
	}
}
