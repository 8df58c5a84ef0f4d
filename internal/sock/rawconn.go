package sock

import (
	"errors"
	"net"
	"syscall"
)

// under returns the first T at or under c. A user's dialler may give a wrapper,
// such as a *tls.Conn, that shows what it wraps.
func under[T any](c net.Conn) (T, bool) {
	for {
		if t, ok := c.(T); ok {
			return t, true
		}
		w, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			var none T
			return none, false
		}
		c = w.NetConn()
	}
}

// rawConn returns the descriptor at or under c. It fails with
// errors.ErrUnsupported if c has none, such as a tunnel within the process.
func rawConn(c net.Conn) (syscall.RawConn, error) {
	sc, ok := under[syscall.Conn](c)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return sc.SyscallConn()
}
