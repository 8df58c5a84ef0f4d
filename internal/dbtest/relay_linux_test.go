package dbtest_test

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRelayVanishLeavesTheClientsKeepAliveWithoutAnswer(t *testing.T) {
	client, server, r := pair(t)
	require.NoError(t, client.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: time.Second, Interval: time.Second, Count: 1,
	}))
	// Bytes that wait for their reader in the network must not be a sign of life.
	go func() { _, _ = server.Write(make([]byte, 32<<20)) }()
	read(t, client)
	r.Vanish(t)
	began := time.Now()
	require.NoError(t, client.SetReadDeadline(began.Add(30*time.Second)))
	buf := make([]byte, 1<<20)
	for {
		if _, err := client.Read(buf); err != nil {
			require.ErrorIs(t, err, syscall.ETIMEDOUT)
			break
		}
	}
	require.Less(t, time.Since(began), 25*time.Second)
}
