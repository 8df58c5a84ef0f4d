package conn

import (
	"context"
	"sync"
)

// call is the context that the inner driver gets for one call on a lock's
// session. It ends with the caller's context only while the call is under way:
// go-sql-driver closes a connection whose Rows outlive their context, and pgx
// keeps BeginTx's context for Commit and Rollback, and either would cost the
// lock. database/sql itself closes Rows and rolls back when a context ends.
type call struct {
	context.Context // the caller's, for Value
	done            chan struct{}
	stop            func() bool

	mu  sync.Mutex // guards what follows; nothing is called under it
	err error
	off bool // the call has returned: done stays open for good
}

// newCall begins a call. ends false makes a call that only kill ends.
func newCall(ctx context.Context, ends bool) *call {
	c := &call{Context: ctx, done: make(chan struct{})}
	if ends {
		c.stop = context.AfterFunc(ctx, func() { c.kill(ctx.Err()) })
	}
	return c
}

// kill ends a call that is under way.
func (c *call) kill(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off || c.err != nil {
		return
	}
	c.err = err
	close(c.done)
}

// finish detaches the call from everything: it never ends from now on.
func (c *call) finish() {
	if c.stop != nil {
		c.stop()
	}
	c.mu.Lock()
	c.off = true
	c.mu.Unlock()
}

func (c *call) Done() <-chan struct{} { return c.done }

func (c *call) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// cancellable tells whether the user can end ctx by other means than the lock:
// a lock's own end reaches a running call as the end of its session, so the
// driver need not watch for it.
func cancellable(ctx context.Context) bool {
	for {
		lc, ok := ctx.(*lockCtx)
		if !ok {
			return ctx.Done() != nil
		}
		ctx = lc.parent
	}
}
