package conn

import (
	"context"
	"time"
)

// ioMutex is held around every single call into the inner driver on a lock's
// session, the keeper's own included: a driver's connection is not safe for
// concurrent use. Waiting for it can be bounded.
type ioMutex chan struct{}

func newIOMutex() ioMutex { return make(ioMutex, 1) }

func (m ioMutex) tryLock() bool {
	select {
	case m <- struct{}{}:
		return true
	default:
		return false
	}
}

func (m ioMutex) lock(ctx context.Context) error {
	if m.tryLock() {
		return nil
	}
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m ioMutex) lockWithin(d time.Duration) bool {
	if m.tryLock() {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case m <- struct{}{}:
		return true
	case <-t.C:
		return false
	}
}

func (m ioMutex) unlock() { <-m }
