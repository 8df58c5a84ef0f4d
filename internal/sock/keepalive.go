package sock

import (
	"net"
	"time"
)

// maxKeepAlive bounds the settings: Linux takes no TCP_KEEPIDLE above 32767 s.
const maxKeepAlive = 32767 * time.Second

// keepAlive has TCP look for a dead peer.
type keepAlive struct {
	idle     time.Duration // silence before the first probe
	interval time.Duration // between probes
	count    int           // unanswered probes that end the connection
	unacked  time.Duration // how long data sent may stay unacknowledged
}

// keepAliveFor returns the settings for a session with that ttl.
//
// A dead peer is an error on the socket idle + count·interval after its last
// sign of life, which is 0.6·ttl in whole seconds, the unit of the system, and at
// least 2 s. Timers of the Linux kernel run up to 1/8 late, so that from a ttl of
// 3 s on it is within 0.8·ttl, and before the server can have idled out. Below, it
// is those 2 s.
//
// While data is unacknowledged TCP sends no probes but the data again, for a
// quarter of an hour by default. unacked ends that at most 0.6·ttl after the first
// time the data is sent again. It is the tighter bound since a statement may be
// sent up to ttl/3 after the peer was last heard, and the server has counted since
// then.
func keepAliveFor(ttl time.Duration) keepAlive {
	budget := min(ttl/10*6, maxKeepAlive)
	dead := max(budget.Truncate(time.Second), 2*time.Second)

	probing := (dead - (dead / 2).Truncate(time.Second)) / time.Second // in seconds
	count := min(probing, 3)
	interval := probing / count * time.Second
	return keepAlive{
		idle:     dead - count*interval,
		interval: interval,
		count:    int(count),
		// With TCP_USER_TIMEOUT Linux ignores the count, and ends the connection at
		// the first probe that finds it exceeded. Half an interval early makes that
		// the last of count.
		unacked: max(min(budget, dead-interval/2), time.Millisecond), // 0 is the system's default
	}
}

// apply sets k on the TCP socket under c, if there is one.
//
// go-sql-driver calls SetKeepAlive(true) after the dial. That sets SO_KEEPALIVE
// and no more, so the times survive it; pgx sets nothing.
func (k keepAlive) apply(c net.Conn) {
	tcp, ok := under[interface {
		SetKeepAliveConfig(net.KeepAliveConfig) error
	}](c)
	if !ok {
		return
	}
	// Errors are left aside: see Dialer.
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable:   true,
		Idle:     k.idle,
		Interval: k.interval,
		Count:    k.count,
	})
	setUserTimeout(c, k.unacked)
}
