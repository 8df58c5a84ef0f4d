package sock_test

import (
	"crypto/tls"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/sock"
)

func TestClosedTellsOurCloseAndNotThePeers(t *testing.T) {
	for name, listen := range map[string]func(testing.TB) listener{"tcp": listenTCP, "unix": listenUnix} {
		t.Run(name, func(t *testing.T) {
			c, server := listen(t).pair(t, nil)
			require.False(t, sock.DescriptorOf(c).Closed())
			require.NoError(t, server.Close())
			_, err := c.Read(make([]byte, 1))
			require.Error(t, err)
			require.False(t, sock.DescriptorOf(c).Closed())
			require.NoError(t, c.Close())
			require.True(t, sock.DescriptorOf(c).Closed())
		})
	}
}

func TestClosedLooksUnderTLS(t *testing.T) {
	c, _ := listenTCP(t).pair(t, nil)
	wrapped := tls.Client(c, &tls.Config{})
	require.False(t, sock.DescriptorOf(wrapped).Closed())
	require.NoError(t, c.Close())
	require.True(t, sock.DescriptorOf(wrapped).Closed())
}

func TestClosedKnowsNothingOfAConnWithoutADescriptor(t *testing.T) {
	a, b := net.Pipe()
	require.NoError(t, b.Close())
	require.NoError(t, a.Close())
	require.False(t, sock.DescriptorOf(a).Closed())
	require.False(t, sock.DescriptorOf(nil).Closed())
}

func TestClosedNeitherWaitsForAReaderNorRacesWithClose(t *testing.T) {
	c, _ := listenTCP(t).pair(t, nil)
	var reader sync.WaitGroup
	reader.Go(func() { _, _ = c.Read(make([]byte, 1)) })
	var askers sync.WaitGroup
	for range 4 {
		askers.Go(func() {
			for !sock.DescriptorOf(c).Closed() {
			}
		})
	}
	require.NoError(t, c.Close())
	askers.Wait()
	reader.Wait()
}
