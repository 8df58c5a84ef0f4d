package dbtest

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// link is one connection through a relay.
type link struct {
	relay  *Relay
	client *net.TCPConn
	done   chan struct{} // closed by close
	once   sync.Once
	lost   bool // guarded by relay.mu

	mu     sync.Mutex // guards server, with done
	server *net.TCPConn
}

func newLink(r *Relay, client *net.TCPConn) *link {
	return &link{relay: r, client: client, done: make(chan struct{})}
}

// run connects the client with the server and returns when both directions have ended.
func (l *link) run() {
	defer func() {
		l.close(false)
		l.relay.mu.Lock()
		delete(l.relay.links, l)
		l.relay.mu.Unlock()
	}()
	toServer, toClient := newFlow(l, false), newFlow(l, true)
	var wg sync.WaitGroup
	defer wg.Wait()
	// The client's bytes are read at once: what was sent before a cut must not wait for the server.
	wg.Go(func() { toServer.read(l.client) })
	if !l.relay.passable(toServer, time.Now()) || !l.dial() {
		l.reset()
		return
	}
	wg.Go(func() { toClient.read(l.server) })
	wg.Go(func() { toServer.write(l.server) })
	toClient.write(l.client)
}

func (l *link) dial() bool {
	conn, err := net.DialTimeout("tcp", l.relay.addr, adminTimeout)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = conn.(*net.TCPConn)
	select {
	case <-l.done: // reset while we dialled
		_ = l.server.SetLinger(0)
		_ = l.server.Close()
		return false
	default:
		return true
	}
}

// reset ends the link with a TCP reset to each side that is still open. What was on its way is lost.
func (l *link) reset() { l.close(true) }

func (l *link) close(hard bool) {
	l.once.Do(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.done)
		for _, c := range l.conns() {
			if hard {
				_ = c.SetLinger(0)
			}
			_ = c.Close()
		}
	})
}

// interruptWrites makes a write that waits for its reader give up.
func (l *link) interruptWrites() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns() {
		_ = c.SetWriteDeadline(time.Now())
	}
}

func (l *link) conns() []*net.TCPConn {
	if l.server == nil {
		return []*net.TCPConn{l.client}
	}
	return []*net.TCPConn{l.client, l.server}
}

// flow is one direction of a link: what was read and is not yet written.
type flow struct {
	link  *link
	reply bool // goes to the client

	mu     sync.Mutex // guards queue
	queue  []parcel
	queued chan struct{} // has room for one: there may be something in the queue
}

// parcel is some bytes, or the end of the stream if there are none.
type parcel struct {
	sent  time.Time
	bytes []byte
	reset bool
}

func newFlow(l *link, reply bool) *flow {
	return &flow{link: l, reply: reply, queued: make(chan struct{}, 1)}
}

func (f *flow) read(from *net.TCPConn) {
	for {
		buf := make([]byte, 16<<10)
		n, err := from.Read(buf)
		if n > 0 {
			f.put(parcel{sent: time.Now(), bytes: buf[:n]})
		}
		if err != nil {
			f.put(parcel{sent: time.Now(), reset: !errors.Is(err, io.EOF)})
			return
		}
	}
}

func (f *flow) put(p parcel) {
	f.mu.Lock()
	f.queue = append(f.queue, p)
	f.mu.Unlock()
	select {
	case f.queued <- struct{}{}:
	default:
	}
}

// take returns the next parcel, or false when the link is closed.
func (f *flow) take() (parcel, bool) {
	for {
		f.mu.Lock()
		if len(f.queue) > 0 {
			p := f.queue[0]
			f.queue = f.queue[1:]
			f.mu.Unlock()
			return p, true
		}
		f.mu.Unlock()
		select {
		case <-f.queued:
		case <-f.link.done:
			return parcel{}, false
		}
	}
}

// write delivers what was read, in order, when the relay lets it pass.
func (f *flow) write(to *net.TCPConn) {
	for {
		p, ok := f.take()
		if !ok {
			return
		}
		for end := len(p.bytes) == 0; end || len(p.bytes) > 0; {
			if !f.link.relay.passable(f, p.sent) {
				return
			}
			n, passed, err := f.deliver(to, p)
			p.bytes = p.bytes[n:]
			switch {
			case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
				f.link.reset()
				return
			case end && passed:
				return
			}
		}
	}
}

// deliver writes the parcel unless the relay has been cut in the meantime.
func (f *flow) deliver(to *net.TCPConn, p parcel) (n int, passed bool, err error) {
	r := f.link.relay
	r.writing.RLock()
	defer r.writing.RUnlock()
	// The deadline goes first: a cut that comes after the look at it sets it anew.
	if err := to.SetWriteDeadline(time.Time{}); err != nil {
		return 0, false, err
	}
	switch {
	case !r.open(f):
		return 0, false, nil
	case p.reset:
		f.link.reset()
		return 0, true, nil
	case len(p.bytes) == 0:
		return 0, true, to.CloseWrite()
	}
	n, err = to.Write(p.bytes)
	return n, true, err
}
