package conn

import (
	"context"
	"sync"
	"time"
)

// lockCtx is the context of a lock. It is a type of its own because
// database/sql answers a dead context with ctx.Err() before it asks the driver:
// Err must then say ErrLost or ErrReleased, and so must the Err of every
// context derived from it. Package context hands Err down like that only to
// children of a foreign context, through AfterFunc.
//
// It ends once: with its parent, or with the lock.
type lockCtx struct {
	lock     *Lock
	parent   context.Context
	unparent func() bool

	mu     sync.Mutex    // guards what follows; nothing of others is called under it
	done   chan struct{} // nil until somebody asks for it
	err    error
	why    error // the cause, when err is set
	afters map[*func()]struct{}
	// cause answers context.Cause: the key that package context looks up is
	// private, so a cancelCtx of its own has to carry the answer. Its Done is
	// not ours, which keeps package context from taking it for ours. It is made
	// when somebody asks: few do.
	cause    context.Context
	setCause context.CancelCauseFunc
}

// endErr is the error of a context that ended with its lock: it is
// context.Canceled to code that knows nothing of locks. It is a pointer in the
// shape of a struct, which costs nothing.
type endErr struct{ of *Error }

func (e endErr) Error() string        { return e.of.Error() }
func (e endErr) Is(target error) bool { return target == context.Canceled }
func (e endErr) Unwrap() error        { return e.of }

// opens begins the lock's context, which is part of the lock.
func (l *Lock) opens(parent context.Context) {
	c := &l.ctx
	c.lock, c.parent = l, parent
	if parent.Done() != nil {
		c.unparent = context.AfterFunc(parent, func() { c.end(parent.Err(), context.Cause(parent)) })
	}
}

// endWith ends the context because of the lock.
func (c *lockCtx) endWith(err *Error) {
	if c.unparent != nil {
		c.unparent()
	}
	wrapped := endErr{err}
	c.end(wrapped, wrapped)
}

func (c *lockCtx) end(err, cause error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err, c.why = err, cause
	if c.setCause != nil {
		c.setCause(cause) // before done is closed: whoever sees Done sees the cause
	}
	afters := c.afters
	c.afters = nil
	if c.done != nil {
		close(c.done)
	}
	c.mu.Unlock()
	for f := range afters {
		go (*f)()
	}
}

// AfterFunc has package context propagate our end and Err to derived contexts
// without a goroutine for each.
func (c *lockCtx) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	if c.afters == nil {
		c.afters = make(map[*func()]struct{})
	}
	id := &f
	c.afters[id] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waiting := c.afters[id]
		delete(c.afters, id)
		return waiting
	}
}

// Deadline is the parent's.
func (c *lockCtx) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Done is closed when the context ends.
func (c *lockCtx) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err sees the end of the parent as soon as a cancel returns; Done may follow a
// moment later, or with this call.
func (c *lockCtx) Err() error {
	c.mu.Lock()
	err := c.err
	c.mu.Unlock()
	if err != nil || c.unparent == nil || c.parent.Err() == nil {
		return err
	}
	c.end(c.parent.Err(), context.Cause(c.parent))
	return c.Err()
}

// lockKey is how FromContext finds the innermost lock; a *Keeper as key finds
// the innermost session lock of that keeper, on which statements run, since locks
// of several databases nest; and a leaseOf the innermost lease.
type lockKey struct{}

// Value answers for the lock and its cause, and else asks the parent. What the
// private cancelCtx knows besides its own key is nothing.
func (c *lockCtx) Value(key any) any {
	switch key := key.(type) {
	case *Keeper:
		if key == c.lock.keeper && !c.lock.isLease && !c.lock.shared {
			return c.lock
		}
	case sharedOf:
		if c.lock.shared && key.keeper == c.lock.keeper {
			return c.lock
		}
	case leaseOf:
		if c.lock.isLease && (key.keeper == nil || key.keeper == c.lock.keeper) {
			return c.lock
		}
	case lockKey:
		if !c.lock.bare { // a pinned session is no lock
			return c.lock
		}
	default:
		if v := c.causeCtx().Value(key); v != nil {
			return v
		}
	}
	return c.parent.Value(key)
}

func (c *lockCtx) causeCtx() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.cause, c.setCause = context.WithCancelCause(context.Background())
		if c.err != nil {
			c.setCause(c.why)
		}
	}
	return c.cause
}

func (c *lockCtx) String() string { return "lockdb.Lock(" + c.lock.key + ").Context" }

// FromContext returns the innermost lock whose context ctx is or derives from.
func FromContext(ctx context.Context) (*Lock, bool) {
	l, ok := ctx.Value(lockKey{}).(*Lock)
	return l, ok
}
