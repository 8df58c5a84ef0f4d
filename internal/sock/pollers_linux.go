package sock

import (
	"sync"

	"golang.org/x/sys/unix"
)

// pollers is the process's poller and the watchers in it.
var pollers struct {
	// mu guards what follows, the watchers of every poller, and every Watcher's
	// fired. Under it: no call of a connection's method nor of a Watcher's f, and
	// no wait for a poller's end, whose goroutine takes it.
	mu      sync.Mutex
	current *poller // nil while nothing is watched
	lastID  uint64  // never used twice: an event of a watcher that is gone finds none
}

// enter puts w among the current poller's watchers, and starts one if need be.
func enter(w *Watcher) error {
	pollers.mu.Lock()
	defer pollers.mu.Unlock()
	if pollers.current == nil {
		p, err := startPoller()
		if err != nil {
			return err
		}
		pollers.current = p
	}
	pollers.lastID++
	w.id = pollers.lastID
	w.poller = pollers.current
	w.poller.watchers[w.id] = w
	return nil
}

// leave takes w out of its poller, and ends that if w was its last.
func leave(w *Watcher) {
	pollers.mu.Lock()
	p := w.poller
	delete(p.watchers, w.id)
	last := len(p.watchers) == 0
	if last {
		pollers.current = nil // p: only the current poller gets watchers, and keeps one until here
	}
	pollers.mu.Unlock()
	if last {
		p.end()
	}
}

// fire starts f of the watchers whose sockets the events are of, unless they were
// stopped. They stay among the watchers until they are.
func fire(p *poller, events []unix.EpollEvent) {
	pollers.mu.Lock()
	defer pollers.mu.Unlock()
	for i := range events {
		id := uint64(uint32(events[i].Fd)) | uint64(uint32(events[i].Pad))<<32
		if w := p.watchers[id]; w != nil && !w.fired {
			w.fired = true
			w.running.Go(w.f)
		}
	}
}
