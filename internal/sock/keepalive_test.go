package sock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/sock"
)

func TestKeepAliveFindsADeadPeerWithinTheTTL(t *testing.T) {
	ttls := []time.Duration{1, time.Millisecond, time.Second, 2 * time.Second, 365 * 24 * time.Hour, 1<<63 - 1}
	for ttl := 3 * time.Second; ttl < 5*time.Minute; ttl += 100 * time.Millisecond {
		ttls = append(ttls, ttl)
	}
	for _, ttl := range ttls {
		i, v, n, u := sock.KeepAliveFor(ttl).Fields()
		idle, interval, count, unacked := time.Duration(i), time.Duration(v), time.Duration(n), time.Duration(u)
		dead := idle + count*interval

		// The kernel's units and limits (tcp(7), net/tcp.h).
		require.Zero(t, idle%time.Second, ttl)
		require.Zero(t, interval%time.Second, ttl)
		require.True(t, idle >= time.Second && idle <= 32767*time.Second, ttl)
		require.True(t, interval >= time.Second && interval <= 32767*time.Second, ttl)
		require.True(t, count >= 1 && count <= 127, ttl)
		require.True(t, unacked >= time.Millisecond && unacked.Milliseconds() < 1<<31, ttl)

		// The count is what the user timeout comes to.
		require.LessOrEqual(t, unacked, dead, ttl)
		if dead > 2*time.Second {
			require.Greater(t, unacked, dead-interval, ttl)
		}

		if ttl < 3*time.Second {
			require.Equal(t, 2*time.Second, dead, ttl)
			continue
		}
		late := dead + dead/8 // the kernel's timer wheel
		require.LessOrEqual(t, late, ttl/10*8, ttl)
		// A statement sent up to ttl/3 after the peer was last heard.
		require.Less(t, ttl/3+unacked+unacked/8, ttl, ttl)
		if ttl < 5*time.Minute {
			require.GreaterOrEqual(t, dead, ttl/3, "an answer that is a little late is no death")
		}
	}
}
