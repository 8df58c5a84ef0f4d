package conn

import (
	"cmp"
	"context"
	"sync"
)

// call is the context that the inner driver gets for one call on a lock's
// session. It ends with the caller's context only while the call is under way:
// go-sql-driver closes a connection whose Rows outlive their context, and pgx
// keeps BeginTx's context for Commit and Rollback, and either would cost the
// lock. database/sql itself closes Rows and rolls back when a context ends.
//
// A result set goes on with the call that made it: reading a row can take as
// long as the statement did.
//
//	under way → returned, or ⇄ paused (a result set is open, nobody reads it)
//	under way → ended
type call struct {
	context.Context // the caller's, for Value
	done            chan struct{}
	stop            func() bool

	mu   sync.Mutex // guards what follows; nothing is called under it
	err  error      // not nil once done is closed
	off  bool       // returned or paused: done stays open
	rows bool       // a result set goes on with it
	late error      // what would have ended it while it was paused
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
	switch {
	case c.err != nil:
	case !c.off:
		c.err = err
		close(c.done)
	case c.late == nil:
		c.late = err
	}
}

// forRows has the call go on with the result set that it made.
func (c *call) forRows() {
	c.mu.Lock()
	c.rows = true
	c.mu.Unlock()
}

// finish says that the call has returned. Without a result set it is detached
// from everything and never ends from now on.
func (c *call) finish() {
	c.mu.Lock()
	c.off = true
	rows := c.rows
	c.mu.Unlock()
	if !rows {
		c.detach()
	}
}

// resume goes on with a paused call, unless its context has ended meanwhile.
func (c *call) resume() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late != nil {
		return c.late
	}
	c.off = c.err != nil
	return c.err
}

// ended returns why the call ended or may not be resumed, nil if neither. It
// looks at the context itself: kill is on its way for a moment.
func (c *call) ended() error {
	c.mu.Lock()
	err := cmp.Or(c.err, c.late)
	c.mu.Unlock()
	if err == nil && c.stop != nil {
		err = c.Context.Err()
	}
	return err
}

// outlived is for a call that leaves something behind which keeps its context, as
// pgx's transaction does, to be looked at again at its end. Either that context
// has ended, or it never will.
func (c *call) outlived() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = true
	return c.err
}

// detach lets go of the caller's context.
func (c *call) detach() {
	if c.stop != nil {
		c.stop()
	}
}

func (c *call) Done() <-chan struct{} { return c.done }

func (c *call) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// cancellable tells whether ctx can end by other means than a session lock: such
// a lock's own end reaches a running call as the end of its session, so the
// driver need not watch for it.
func cancellable(ctx context.Context) bool { return aroundLocks(ctx).Done() != nil }

// aroundLocks is ctx, or if that is a session lock's own the context that the
// outermost of them was acquired under.
func aroundLocks(ctx context.Context) context.Context {
	for {
		lc, ok := ctx.(*lockCtx)
		if !ok || lc.lock.isLease || lc.lock.shared {
			return ctx
		}
		ctx = lc.parent
	}
}
