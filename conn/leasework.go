package conn

import (
	"context"
	"time"
)

// workUntil is until when the end of a lock waits for the transactions begun under
// it: for the busy timeout, but so long at least as their rollback may take.
func (k *Keeper) workUntil() time.Time {
	return time.Now().Add(max(k.opts.BusyTimeout, time.Second))
}

// openWork lists the transactions that are open under the lock.
func (l *Lock) openWork() []*fence {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := make([]*fence, 0, len(l.work))
	for f := range l.work {
		open = append(open, f)
	}
	return open
}

// awaitWork waits until then for the transactions begun under the lock to end, and
// tells how many have not. database/sql rolls back those whose context has ended.
// Others it can only be made to, if they are on the conn that Lock.Conn gave.
func (l *Lock) awaitWork(until time.Time) (stuck int) {
	open := l.openWork()
	if len(open) == 0 {
		return 0
	}
	for _, f := range open {
		f.rollBackBound()
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for i, f := range open {
		select {
		case <-f.ended:
		case <-timer.C:
			for _, f := range open[i:] {
				if !f.isEnded() {
					stuck++
				}
			}
			return stuck
		}
	}
	return 0
}

// patience is the context of a Commit: it ends the busy timeout after the lock has,
// so that nobody waits for the answer of a silent network who has lost his lease.
func (f *fence) patience() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(&f.locks[0].ctx, func() {
		t := time.NewTimer(time.Until(f.keeper.workUntil()))
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel() }
}
