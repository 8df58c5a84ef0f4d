package conn

import (
	"time"

	"github.com/lockdb/lockdb/internal/monotime"
)

// clock tells when an exchange with the server began: by monotime, to read which
// is a system call, so a reading serves for a moment. That errs to the safe side:
// the exchange began then or later.
type clock struct {
	reading time.Duration
	read    time.Time // when
}

const clockStep = 10 * time.Millisecond

func (c *clock) at(now time.Time) time.Duration {
	if now.Sub(c.read) > clockStep {
		c.reading, c.read = monotime.Now(), now
	}
	return c.reading
}
