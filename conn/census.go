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
}

// The pause between two counts is so many times as long as the last one took. Who
// comes meanwhile waits for the next if that is not long.
const (
	censusPause = 4
	censusWait  = 10 * time.Millisecond
)

// lives tells whether the goroutine has not ended, as far as there is time to find
// out: then it may have.
func (c *census) lives(id int64) bool {
	asked := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun.Before(asked) { // else it was alive then, if it is in there
		pause := time.Until(c.begun.Add((1 + censusPause) * c.cost))
		if pause > censusWait {
			return true
		}
		time.Sleep(pause)
		c.begun = time.Now()
		c.alive = goroutines()
		c.cost = time.Since(c.begun)
	}
	return c.alive[id]
}

// goroutines are the ids of all goroutines that have not ended. It stops the world.
func goroutines() map[int64]bool {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := make(map[int64]bool)
	for _, stack := range bytes.Split(buf, []byte("\n\n")) {
		if id, ok := goidIn(stack); ok {
			all[id] = true
		}
	}
	return all
}
