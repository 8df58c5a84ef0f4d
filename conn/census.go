package conn

import (
	"bytes"
	"runtime"
	"sync"
	"time"
)

// census tells which goroutines live. To find out stops the world, for longer the
// more there are, so it takes up a small share of the time only.
type census struct {
	mu    sync.Mutex // guards what follows, and has one count at a time
	alive map[int64]bool
	begun time.Time     // when they were counted
	cost  time.Duration // how long that took
	size  int           // of the text that they were read from
}

// The pause between two counts is so many times as long as the last one took. Who
// comes meanwhile waits for the next if that is not long.
const (
	censusPause = 4
	censusWait  = 10 * time.Millisecond
)

// lives tells whether a goroutine that was alive at some time has not ended, as far
// as there is time to find out: then it may have. Ids are never used again, so who
// was not among those counted after that has ended for good.
func (c *census) lives(id int64, at time.Time) bool {
	asked := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begun.Before(at) && !c.alive[id] {
		return false
	}
	if c.begun.Before(asked) { // else it was alive then, if it is in there
		pause := time.Until(c.begun.Add((1 + censusPause) * c.cost))
		if pause > censusWait {
			return true
		}
		time.Sleep(pause)
		c.begun = time.Now()
		c.alive, c.size = goroutines(c.size)
		c.cost = time.Since(c.begun)
	}
	return c.alive[id]
}

// goroutines are the ids of all goroutines that have not ended, and the size of their
// stacks' text. It stops the world; if the text is much longer than expected, more
// than once.
func goroutines(expected int) (alive map[int64]bool, size int) {
	buf := make([]byte, max(1<<20, expected+expected/4))
	for {
		size = runtime.Stack(buf, true)
		if size < len(buf) {
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	alive = make(map[int64]bool)
	for _, stack := range bytes.Split(buf[:size], []byte("\n\n")) {
		if id, ok := goidIn(stack); ok {
			alive[id] = true
		}
	}
	return alive, size
}
