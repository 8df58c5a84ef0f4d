package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockdb/lockdb/internal/lease"
)

// leasePart is what a Lock has that is a lease.
type leasePart struct {
	// around is the innermost lease's lock of the same keeper under whose context
	// this one was acquired; nil if there is none.
	around *Lock

	given    sync.Once // giveBack
	givenErr error

	// Guarded by the Lock's mu, but once Acquire has returned leases stay as they are.
	leases []heldLease
	inside map[*Lock]struct{}  // re-entries
	work   map[*fence]struct{} // transactions that are open
}

// leaseOf is how a context tells the innermost lease's lock of a keeper, or of any
// if that is nil.
type leaseOf struct{ keeper *Keeper }

// reenterLease enters the lock that is around this one and has the lease, if
// there is one. It shares the lease, and ends with it.
func (l *Lock) reenterLease(r leaseRow) (bool, error) {
	for o := l.around; o != nil; o = o.around {
		o.mu.Lock()
		i := slices.IndexFunc(o.leases, func(have heldLease) bool { return have.row == r.row })
		if i < 0 {
			o.mu.Unlock()
			continue
		}
		shared, err := o.leases[i], o.err
		if err == nil {
			if o.inside == nil {
				o.inside = make(map[*Lock]struct{})
			}
			o.inside[l] = struct{}{}
		}
		o.mu.Unlock()
		if err != nil {
			return false, err
		}
		shared.key, shared.own = r.key, false
		l.mu.Lock()
		l.leases = append(l.leases, shared)
		l.mu.Unlock()
		return true, nil
	}
	return false, nil
}

// leaveAround has the locks that it re-entered forget it.
func (l *Lock) leaveAround() {
	for o := l.around; o != nil; o = o.around {
		o.mu.Lock()
		delete(o.inside, l)
		o.mu.Unlock()
	}
}

// reentries are the locks that share a lease of this one.
func (l *Lock) reentries() []*Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	inside := make([]*Lock, 0, len(l.inside))
	for n := range l.inside {
		inside = append(inside, n)
	}
	return inside
}

// leaseErr is Err of a lease: it looks at the clock, which may know of a loss
// before anyone was told.
func (l *Lock) leaseErr() error {
	l.mu.Lock()
	err, leases := l.err, l.leases
	l.mu.Unlock()
	for _, le := range leases {
		if err != nil {
			break
		}
		if lost := le.Err(); lost != nil {
			if errors.Is(lost, lease.ErrReleased) { // by the lock that this one re-entered, which is being closed
				return fault(l.key, "", ErrReleased)
			}
			l.leaseLost(lost)
			return l.leaseErr()
		}
	}
	return err
}

// leaseLost ends the lock because one of its leases is lost. It can be called more
// than once, and by the Manager on a goroutine of its own.
func (l *Lock) leaseLost(cause error) {
	var loss *lease.Loss
	if errors.As(cause, &loss) {
		cause = loss.Cause // the rest is said already
	}
	err := fault(l.key, fmt.Sprintf("lease, held for %v", time.Since(l.since).Round(time.Millisecond)), ErrLost, cause)
	if !l.to(stateLost, err) {
		return
	}
	for _, n := range l.reentries() {
		n.leaseLost(cause)
	}
	l.ctx.endWith(err)
	k := l.keeper
	k.mu.Lock()
	_, known := k.leaseLocks[l]
	k.mu.Unlock()
	if known { // else nobody has it yet, or any more
		k.spawn(func() {
			l.tellEnd()
			l.awaitWork(k.workUntil())
			_ = l.giveBack()
		})
	}
}

// cutOff is the error of a statement on a conn's own session, which says so if it
// was the end of a lease that ended it: pgx has words of its own for the end of a
// context whose error it does not know.
func (k *Keeper) cutOff(ctx context.Context, err error) error {
	if err == nil || !k.everLeased.Load() || errors.Is(err, driver.ErrSkip) || errors.Is(err, ErrLost) || errors.Is(err, ErrReleased) {
		return err
	}
	ended := ctx.Err()
	if l, ok := ctx.Value(leaseOf{k}).(*Lock); ok && (errors.Is(ended, ErrLost) || errors.Is(ended, ErrReleased)) {
		return fault(l.key, "the lease ended while a statement ran", ended, err)
	}
	return err
}

// closeLease is Close of a lease.
func (l *Lock) closeLease(gone *Error, reason error) error {
	until := l.keeper.workUntil()
	if !l.to(stateClosing, gone) { // lost, or ended by the lock that it re-entered
		l.awaitWork(until)
		_ = l.giveBack()
		return l.Err()
	}
	return l.endLease(gone, reason, until)
}

// endLease ends a closing lock: it ends the contexts, waits until then for the
// transactions begun under it to end, and releases the leases.
func (l *Lock) endLease(gone *Error, reason error, until time.Time) error {
	open := l.openWork() // before the end of the contexts, which rolls back
	for _, n := range l.reentries() {
		if n.to(stateClosing, gone) {
			_ = n.endLease(gone, reason, until)
		}
	}
	l.leaveAround()
	l.ctx.endWith(gone)
	var note error
	switch stuck := l.awaitWork(until); {
	case stuck > 0:
		note = fault(l.key, fmt.Sprintf("%d transactions begun under the lease were still open when the time to wait for them was over, and the lease was released: their Commit fails",
			stuck), ErrReleased)
	case slices.ContainsFunc(open, func(f *fence) bool { return !f.committed.Load() }):
		note = openTxAtClose(l.key)
	case errors.Is(reason, ErrClosed):
		note = ErrClosed
	}
	defer l.keeper.telling(l)()
	err := l.giveBack()
	switch {
	case errors.Is(err, lease.ErrLost):
		l.leaseLost(err)
	case err != nil:
		note = fault(l.key, "the lease ended here, but could not be released at the server", ErrReleased, err)
	}
	l.remark(note)
	if !l.to(stateReleased, gone) {
		note = l.Err() // lost meanwhile
	}
	l.tellEnd()
	return note
}

// giveBack releases the lock's own leases, once.
func (l *Lock) giveBack() error {
	l.given.Do(func() { l.givenErr = l.releaseOwn() })
	return l.givenErr
}

// releaseOwn releases the leases that the lock has now, except re-entries, and
// has the keeper forget it.
func (l *Lock) releaseOwn() error {
	l.mu.Lock()
	leases := l.leases
	l.mu.Unlock()
	var errs []error
	for _, le := range slices.Backward(leases) {
		if le.own {
			errs = append(errs, le.Release())
		}
	}
	k := l.keeper
	k.mu.Lock()
	delete(k.leaseLocks, l)
	k.mu.Unlock()
	return errors.Join(errs...)
}

// ownsAny tells whether giveBack has anything to release.
func (l *Lock) ownsAny() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.leases, func(le heldLease) bool { return le.own })
}

// tokens are the tokens of the leases; nil for a session lock.
func (l *Lock) tokens() []int64 {
	if !l.isLease {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	tokens := make([]int64, len(l.leases))
	for i, le := range l.leases {
		tokens[i] = le.Row().Token
	}
	return tokens
}
