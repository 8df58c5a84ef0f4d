package dbtest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Relay is a TCP relay before a server, and the network between them: it can be slow, silent, or break.
type Relay struct {
	server   *Server // nil if it is none of ours
	addr     string  // the server's
	listener net.Listener
	accepted int64
	wg       sync.WaitGroup

	mu      sync.Mutex // guards all below; no network I/O under it
	links   map[*link]struct{}
	delay   time.Duration
	cut     bool
	mute    bool
	closed  bool
	changed chan struct{} // closed and replaced at each change, for those who wait for one
	writing sync.RWMutex  // held for reading during a write, so that Cut can wait for the last one
}

// Relay starts a relay before the server. It ends with the test, with all its connections.
func (s *Server) Relay(tb testing.TB) *Relay {
	tb.Helper()
	r := RelayTo(tb, s.Addr())
	r.server = s
	return r
}

// RelayTo starts a relay before whatever listens at that "host:port". It has no DSN.
func RelayTo(tb testing.TB, addr string) *Relay {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &Relay{addr: addr, listener: l, links: make(map[*link]struct{}), changed: make(chan struct{})}
	r.wg.Go(r.accept)
	tb.Cleanup(r.close)
	return r
}

// Addr is the relay's "host:port".
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// DSN is the server's DSN by way of the relay.
func (r *Relay) DSN() string { return r.server.DSNAt(r.Addr()) }

// SetDelay sets how long every byte travels in each direction, also of those on their way. It costs no
// throughput. It applies to new connections too, but not to the TCP handshake.
func (r *Relay) SetDelay(d time.Duration) { r.change(func() { r.delay = d }) }

// Cut makes the network silent: no byte, end or reset of a connection passes in either direction, and new
// connections are accepted but reach no server. All is held, as TCP retransmits it, and delivered after Heal.
// When Cut returns, nothing more passes.
func (r *Relay) Cut() {
	r.change(func() { r.cut = true })
	r.flush()
}

// CutForGood is Cut, except that nothing held is ever delivered: the connections that now exist stay
// silent, and open at the server, until ResetLost, or the relay's end with the test. After Heal, new
// connections work.
func (r *Relay) CutForGood() {
	r.change(func() {
		r.cut = true
		for l := range r.links {
			l.lost = true
		}
	})
	r.flush()
}

// CutReplies is Cut of the direction to the client only: the server gets and does what the client asks, but
// the client does not hear of it.
func (r *Relay) CutReplies() {
	r.change(func() { r.mute = true })
	r.flush()
}

// flush returns when no write is under way that began before the cut.
func (r *Relay) flush() {
	for _, l := range r.all() {
		l.interruptWrites()
	}
	r.writing.Lock()
	//lint:ignore SA2001 the writes have ended, which is all we wait for
	r.writing.Unlock()
}

// Heal ends a cut.
func (r *Relay) Heal() { r.change(func() { r.cut, r.mute = false, false }) }

// Reset breaks every connection with a TCP reset to both sides. What was on its way is lost.
func (r *Relay) Reset() {
	for _, l := range r.all() {
		l.reset()
	}
}

// ResetLost is Reset of the connections that CutForGood has made silent.
func (r *Relay) ResetLost() {
	for _, l := range r.all() {
		r.mu.Lock()
		lost := l.lost
		r.mu.Unlock()
		if lost {
			l.reset()
		}
	}
}

// Conns is the number of connections that have not ended at both sides.
func (r *Relay) Conns() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.links)
}

// Accepted is the number of connections that clients have made so far.
func (r *Relay) Accepted() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		l := newLink(r, client.(*net.TCPConn))
		r.mu.Lock()
		r.accepted++
		if r.closed {
			r.mu.Unlock()
			l.reset()
			return
		}
		r.links[l] = struct{}{}
		r.wg.Go(l.run)
		r.mu.Unlock()
	}
}

func (r *Relay) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Relay) all() []*link {
	r.mu.Lock()
	defer r.mu.Unlock()
	links := make([]*link, 0, len(r.links))
	for l := range r.links {
		links = append(links, l)
	}
	return links
}

func (r *Relay) close() {
	_ = r.listener.Close()
	r.change(func() { r.closed = true })
	r.Reset()
	r.wg.Wait()
}

// passable waits until what was sent at the given time may pass, and tells whether it ever may.
func (r *Relay) passable(f *flow, sent time.Time) bool {
	for {
		r.mu.Lock()
		wait, blocked, changed := time.Until(sent.Add(r.delay)), r.blocks(f), r.changed
		r.mu.Unlock()
		if !blocked && wait <= 0 {
			return true
		}
		if !blocked && wait < time.Millisecond {
			nap(wait)
			continue
		}
		var arrives <-chan time.Time
		if !blocked {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			arrives = timer.C
		}
		select {
		case <-f.link.done:
			return false
		case <-changed:
		case <-arrives:
		}
	}
}

// open tells whether bytes may pass just now.
func (r *Relay) open(f *flow) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.blocks(f)
}

// blocks is called with r.mu held.
func (r *Relay) blocks(f *flow) bool { return r.cut || f.link.lost || r.mute && f.reply }
