package sock

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits for the events of the sockets under watch. Its goroutine runs no
// code of others, so that Stop can join it under whatever locks its caller holds.
type poller struct {
	epoll    int                 // the descriptor; open while there are watchers
	file     *os.File            // owns epoll, and has the Go runtime wait for it
	watchers map[uint64]*Watcher // guarded by pollers.mu
	ended    chan struct{}
}

// startPoller starts a poller without watchers.
func startPoller() (*poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	// os.NewFile gives only a nonblocking descriptor to the runtime's poller.
	if err := unix.SetNonblock(epoll, true); err != nil {
		_ = unix.Close(epoll)
		return nil, os.NewSyscallError("fcntl", err)
	}
	file := os.NewFile(uintptr(epoll), "epoll")
	// A deadline can be set exactly if the runtime's poller took the descriptor.
	if err := file.SetReadDeadline(time.Time{}); err != nil {
		_ = file.Close()
		return nil, err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	p := &poller{
		epoll:    epoll,
		file:     file,
		watchers: make(map[uint64]*Watcher),
		ended:    make(chan struct{}),
	}
	go p.run(raw)
	return p, nil
}

// end ends the poller's goroutine and joins it. Close returns when no Read of the
// descriptor is under way.
func (p *poller) end() {
	_ = p.file.Close()
	<-p.ended
}

// run fires watchers until the file is closed.
func (p *poller) run(raw syscall.RawConn) {
	defer close(p.ended)
	var events [64]unix.EpollEvent
	for {
		var n int
		var waitErr error
		// The runtime wakes us on edges: it may wait again only after a look that
		// found nothing.
		err := raw.Read(func(fd uintptr) bool {
			n, waitErr = epollNow(int(fd), events[:])
			return n > 0 || waitErr != nil
		})
		if err != nil || waitErr != nil {
			return
		}
		fire(p, events[:n])
	}
}

// epollNow returns the number of events that there are now.
func epollNow(epoll int, events []unix.EpollEvent) (int, error) {
	for {
		n, err := unix.EpollWait(epoll, events, 0)
		if err != unix.EINTR {
			return n, err
		}
	}
}
