package dbtest

import (
	"net"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Vanish takes away the network under the connections that now exist: what comes for either end is
// dropped before TCP sees it. Unlike after a cut nothing is acknowledged any more, TCP's own keep-alive
// included, so an end that has it learns of the loss in time. It reaches clients of this process and
// the server; new connections work.
func (r *Relay) Vanish(tb testing.TB) {
	tb.Helper()
	r.change(func() {
		for l := range r.links {
			l.lost = true
		}
	})
	r.flush()
	for _, l := range r.all() {
		if err := l.vanish(); err != nil {
			tb.Fatal(err)
		}
	}
}

func (l *link) vanish() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := dropOwn(l.client.RemoteAddr()); err != nil {
		return err
	}
	for _, c := range l.conns() {
		_ = c.SetKeepAlive(false) // its probes would be a sign of life
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		var dropErr error
		if err := raw.Control(func(fd uintptr) { dropErr = drop(int(fd)) }); err != nil || dropErr != nil {
			continue // the link has ended meanwhile
		}
	}
	return nil
}

// drop makes the socket deaf.
func drop(fd int) error {
	all := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &all})
}

// dropOwn makes the socket of this process deaf that has that address, if there is one. A driver does
// not show its socket, so it is looked for among the descriptors.
func dropOwn(addr net.Addr) error {
	want, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	for fd := range int(min(limit.Cur, 1<<16)) {
		name, err := unix.Getsockname(fd)
		if err != nil {
			continue
		}
		if in, ok := name.(*unix.SockaddrInet4); ok && netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port)) == want {
			return drop(fd)
		}
	}
	return nil
}
