package sock

import (
	"errors"
	"net"
	"syscall"
)

// Descriptor is our side of a connection. The zero value is of none.
type Descriptor struct{ raw syscall.RawConn }

// DescriptorOf returns the descriptor of c, or of the connection under it; the
// zero value if it has none.
func DescriptorOf(c net.Conn) Descriptor {
	raw, err := rawConn(c)
	if err != nil {
		return Descriptor{}
	}
	return Descriptor{raw}
}

// Closed reports whether our side has closed it. It does not look at the peer,
// does not touch the socket, and never blocks. Of no descriptor it reports false.
func (d Descriptor) Closed() bool {
	return d.raw != nil && errors.Is(d.raw.Control(func(uintptr) {}), net.ErrClosed)
}
