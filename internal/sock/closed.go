package sock

import (
	"errors"
	"net"
)

// Closed reports whether our side has closed c. It does not look at the peer,
// does not touch the socket, and never blocks. Of a c that has no descriptor of
// its own it knows nothing, and reports false.
func Closed(c net.Conn) bool {
	raw, err := rawConn(c)
	if err != nil {
		return false
	}
	return errors.Is(raw.Control(func(uintptr) {}), net.ErrClosed)
}
