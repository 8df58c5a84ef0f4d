package sock

import (
	"context"
	"net"
	"sync"
)

// Captured is the record of the sockets dialled under one context. Its methods
// may be called at any time, from any goroutine.
type Captured struct {
	mu   sync.Mutex // guards conn; nothing is called under it
	conn net.Conn
}

type capturedKey struct{}

// Capture returns a ctx that, given to a connector whose dialler is [Dialer]'s,
// records the last socket dialled under it. Contexts derived from it record into
// the same Captured, unless they come from another Capture.
//
// One Capture serves one Connect: no two connections should be dialled under it.
func Capture(ctx context.Context) (context.Context, *Captured) {
	c := new(Captured)
	return context.WithValue(ctx, capturedKey{}, c), c
}

// Conn returns the last socket dialled, or nil if none was dialled through
// [Dialer]. A dial that failed changes nothing. pgx tries several hosts, and one
// host with and without TLS, one after the other, and returns a connection on the
// last that it dialled. It is the raw socket, also where the driver speaks TLS over
// it, and may be closed already.
func (c *Captured) Conn() net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

// record notes conn in the Captured of ctx, if there is one.
func record(ctx context.Context, conn net.Conn) {
	c, ok := ctx.Value(capturedKey{}).(*Captured)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
}
