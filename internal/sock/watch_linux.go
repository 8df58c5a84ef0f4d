package sock

import (
	"fmt"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Watcher watches one socket. See [Watch].
type Watcher struct {
	f       func()
	conn    syscall.RawConn
	poller  *poller
	id      uint64
	fired   bool // guarded by pollers.mu
	running sync.WaitGroup
	stop    sync.Once
}

// Watch calls f once, on a goroutine of the Watcher's, when the peer of c has
// closed or reset the connection, or TCP has given it up. If that is so already,
// it does so at once: f may run before Watch has returned. It reads no byte and
// keeps nothing open, so data that nobody has read yet does not hide the end, and
// data that arrives costs nothing. A Close of c by our side calls nothing.
//
// The Watcher must be stopped, also after f was called. A socket has one Watcher
// at a time: Watch fails with EEXIST for another. It fails with net.ErrClosed when
// c is closed, and with errors.ErrUnsupported when c has no descriptor or the
// system no means; after an error nothing is left behind.
func Watch(c net.Conn, f func()) (*Watcher, error) {
	raw, err := rawConn(c)
	if err != nil {
		return nil, fmt.Errorf("sock: watch: %w", err)
	}
	w := &Watcher{f: f, conn: raw}
	if err := enter(w); err != nil {
		return nil, fmt.Errorf("sock: watch: %w", err)
	}
	// The low and high half of the id are the kernel's 64 bits of user data.
	// ONESHOT, since a peer's end that was told stays there to be told again.
	event := unix.EpollEvent{
		Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT,
		Fd:     int32(uint32(w.id)),
		Pad:    int32(uint32(w.id >> 32)),
	}
	if err := w.control(unix.EPOLL_CTL_ADD, &event); err != nil {
		leave(w)
		return nil, fmt.Errorf("sock: watch: %w", err)
	}
	return w, nil
}

// Stop ends the watch. After it returns f will not be started; if it has been
// started it may still run, or be about to: Wait tells. Stop never waits for f,
// and f may call it. It is idempotent, and may be called before, after or during
// the Close of the socket.
func (w *Watcher) Stop() {
	w.stop.Do(func() {
		// While w is among the poller's watchers the epoll descriptor is open, hence
		// first. The error is that c is closed: then the kernel has removed it, and
		// its number may be a stranger's.
		_ = w.control(unix.EPOLL_CTL_DEL, nil)
		leave(w)
	})
}

// Wait, called after Stop, returns when f has ended or will never be called. f
// must not call it.
func (w *Watcher) Wait() {
	w.running.Wait()
}

// control changes the poller's entry of the socket. It fails with net.ErrClosed
// without a look at the descriptor's number if our side has closed the socket.
func (w *Watcher) control(op int, event *unix.EpollEvent) error {
	var ctlErr error
	err := w.conn.Control(func(fd uintptr) {
		ctlErr = unix.EpollCtl(w.poller.epoll, op, int(fd), event)
	})
	if err != nil {
		return err
	}
	return ctlErr
}
