package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lockdb/lockdb/internal/dialect"
	"github.com/lockdb/lockdb/internal/lease"
)

// fence is what a transaction begun under leases must still hold at its Commit.
//
// A transaction cannot outlive its lease unnoticed: Close of the lock waits until
// it has ended, and at Commit the transaction itself looks at the rows of the
// leases and keeps them as they are until it has ended.
type fence struct {
	keeper   *Keeper
	locks    []*Lock        // the leases' locks around it, the innermost first
	leases   []*lease.Lease // theirs, sorted by their rows, each once
	readOnly bool           // there is nothing to commit
	ctx      context.Context
	handle   *sql.Conn // the one that Lock.Conn gave, if it was begun there

	committed atomic.Bool
	once      sync.Once
	ended     chan struct{} // closed when the transaction has ended
}

// fenceFor returns the fence of a transaction that begins under ctx, on a conn that
// is bound to that lock (nil: to none) through that handle; nil if no lease is about.
// It is an error if one is not held any more.
func (k *Keeper) fenceFor(ctx context.Context, bound *Lock, handle *sql.Conn, opts driver.TxOptions) (*fence, error) {
	inner, _ := ctx.Value(leaseOf{k}).(*Lock)
	var beside *Lock
	if bound != nil {
		beside, _ = bound.ctx.Value(leaseOf{k}).(*Lock)
	}
	if inner == nil && beside == nil {
		return nil, nil
	}
	f := &fence{keeper: k, readOnly: opts.ReadOnly, ctx: ctx, handle: handle, ended: make(chan struct{})}
	f.around(inner)
	f.around(beside)
	for _, l := range f.locks {
		if err := f.enter(l); err != nil {
			f.end()
			return nil, err
		}
		for _, le := range l.leases {
			if !slices.Contains(f.leases, le.Lease) {
				f.leases = append(f.leases, le.Lease)
			}
		}
	}
	slices.SortFunc(f.leases, func(a, b *lease.Lease) int { return strings.Compare(a.Row().Key, b.Row().Key) })
	return f, nil
}

// around adds a lock and those around it.
func (f *fence) around(l *Lock) {
	for ; l != nil; l = l.around {
		if !slices.Contains(f.locks, l) {
			f.locks = append(f.locks, l)
		}
	}
}

// enter has the lock know of the transaction, if it is held.
func (f *fence) enter(l *Lock) error {
	if err := l.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if l.work == nil {
		l.work = make(map[*fence]struct{})
	}
	l.work[f] = struct{}{}
	return nil
}

// end says that the transaction has ended. A nil fence is none.
func (f *fence) end() {
	if f == nil {
		return
	}
	f.once.Do(func() {
		for _, l := range f.locks {
			l.mu.Lock()
			delete(l.work, f)
			l.mu.Unlock()
		}
		close(f.ended)
	})
}

func (f *fence) isEnded() bool {
	select {
	case <-f.ended:
		return true
	default:
		return false
	}
}

// check tells, before anything is sent, whether the transaction may commit. Once
// it may, Close of a lock waits for it.
func (f *fence) check() error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	for _, l := range f.locks {
		if err := l.Err(); err != nil {
			return err
		}
	}
	return nil
}

// explain makes the error of a Commit, with the session's io released: it may ask
// the rows, on another connection.
func (f *fence) explain(v verdict) error {
	key := f.locks[0].key
	switch {
	case v.err == nil:
		return nil
	case errors.Is(v.err, dialect.ErrMoved):
		return f.moved(v.err, true)
	case errors.Is(v.err, dialect.ErrCommitUnknown):
		return fault(key, "look at the data to learn whether it took effect", ErrOutcomeUnknown, v.err)
	case errors.Is(v.err, driver.ErrBadConn), v.over && !v.sent:
		return fault(key, "the connection ended before COMMIT was sent: nothing was committed", v.err)
	case v.over:
		return fault(key, "the connection ended while COMMIT was under way: look at the data to learn whether it took effect", ErrOutcomeUnknown, v.err)
	case v.fence && f.keeper.dialect.Leases(f.keeper.opts.LeaseTable).Fault(v.err) == dialect.LeaseFaultReadOnly:
		return fault(key, "the transaction was rolled back, since it is read-only, in which no fence can be: begin it as such "+
			"(sql.TxOptions{ReadOnly: true}), then it needs none", ErrUnsupported, v.err)
	case v.fence:
		return f.moved(v.err, false)
	}
	return v.err
}

// moved asks the rows which of the leases have moved on, and ends their locks. sure:
// one of them has. Without, a fence failed that may have met another transaction.
func (f *fence) moved(why error, sure bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupBound)
	defer cancel()
	var out error
	for _, le := range f.leases {
		moved := sure && len(f.leases) == 1
		if !moved {
			moved, _ = le.Moved(ctx) // not to know is not to say so
		}
		if moved {
			l := f.lose(le, why)
			out = rolledBack(l.key, why)
		}
	}
	switch {
	case out != nil:
		return out
	case sure:
		return rolledBack(f.locks[0].key, why)
	}
	return why
}

// rolledBack is the error of a COMMIT that was refused because the lease has moved
// on, which a fence says in so many words and a conflict of transactions does not.
func rolledBack(key string, why error) error {
	what := "the transaction was rolled back at its COMMIT"
	if !errors.Is(why, dialect.ErrMoved) {
		what += ", since the lease has moved on"
	}
	return fault(key, what, ErrLost, why)
}

// lose ends the locks that have that lease, and returns the innermost.
func (f *fence) lose(le *lease.Lease, why error) (innermost *Lock) {
	cause := fmt.Errorf("found at COMMIT: %w", why)
	le.Lose(cause, func() {
		for _, l := range slices.Backward(f.locks) {
			if slices.ContainsFunc(l.leases, func(have heldLease) bool { return have.Lease == le }) {
				l.leaseLost(cause)
				innermost = l
			}
		}
	})
	return innermost
}
