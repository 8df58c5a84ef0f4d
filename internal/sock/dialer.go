package sock

import (
	"context"
	"net"
	"time"
)

// DialFunc opens a connection. Both real drivers take functions of this shape.
type DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// Dialer wraps next (nil: a [net.Dialer]): what it dials is recorded in the
// [Captured] of its ctx. It returns the very net.Conn and error of next, since the
// drivers look for *net.TCPConn and syscall.Conn.
//
// A ttl > 0 has TCP find a dead peer in time: on Linux within 0.8·ttl, and 2 s at
// best, while we wait for an answer, and about 0.6·ttl after the first byte that it does
// not acknowledge. A peer that acknowledges but does not read, for as long, ends a
// connection that has more to send than the buffers between them take.
//
// Where the system refuses a setting, and on sockets other than TCP, the
// connection is as next made it: a session without them is better than none, and
// pings still tell.
func Dialer(next DialFunc, ttl time.Duration) DialFunc {
	if next == nil {
		next = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err != nil || c == nil {
			return c, err
		}
		if ttl > 0 {
			keepAliveFor(ttl).apply(c)
		}
		record(ctx, c)
		return c, nil
	}
}
