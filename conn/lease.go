package conn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
	"github.com/lockdb/lockdb/internal/lease"
	"github.com/lockdb/lockdb/internal/lockkey"
)

// heldLease is one of the leases of a Lock.
type heldLease struct {
	*lease.Lease
	key string // as the caller gave it
	row string // as the table has it
	own bool   // Close of the lock releases it: not a re-entry
}

// shortTTL is the TTL below which a pause of the garbage collector, of the network
// or of the server costs leases often enough to warn of it.
const shortTTL = time.Second

// leaseRow is one key that a lease is asked for.
type leaseRow struct{ key, row string }

// acquireLeases takes the leases of all keys, or none, in the order of their
// rows: who takes several in that order waits for nobody in a circle.
func (k *Keeper) acquireLeases(ctx context.Context, keys []string, req Request) (*Lock, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if req.Renew == 0 {
		req.Renew = req.Lease / 3
	}
	rows := make([]leaseRow, len(keys))
	for i, key := range keys {
		row, err := lockkey.Name(k.opts.Namespace, key)
		if err != nil {
			return nil, err
		}
		rows[i] = leaseRow{key, row}
	}
	slices.SortStableFunc(rows, func(a, b leaseRow) int { return strings.Compare(a.row, b.row) })
	rows = slices.CompactFunc(rows, func(a, b leaseRow) bool { return a.row == b.row })
	owner, err := k.leaseOwner(req.Owner)
	if err != nil {
		return nil, err
	}
	req.shared = req.Owner != ""
	req.Key, req.Owner = rows[0].key, owner
	for _, r := range rows[1:] {
		req.more = append(req.more, nestedKey{key: r.key})
	}
	req.outcome = new(outcome)
	req.outcome.opens(k, req)
	l, err := k.leaseAll(ctx, rows, req)
	req.outcome.end(l, err)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (k *Keeper) leaseAll(ctx context.Context, rows []leaseRow, req Request) (*Lock, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault(req.Key, "the context ended before the lease was asked for", err)
	}
	if req.Lease < shortTTL {
		k.shortOnce.Do(func() {
			k.write(slog.LevelWarn, "lockdb: a lease of less than a second is lost to every longer pause of this process, the network or the server",
				slog.String("key", req.Key), slog.Duration("ttl", req.Lease))
		})
	}
	m, err := k.joinLeases()
	if err != nil {
		return nil, fault(req.Key, "", err)
	}
	l := &Lock{keeper: k, key: req.Key, isLease: true, leasePart: &leasePart{}, since: time.Now()}
	if len(rows) > 1 {
		l.keys = req.outcome.keys
	}
	l.around, _ = ctx.Value(leaseOf{k}).(*Lock)
	l.opens(ctx)
	until := time.Time{}
	if req.Timeout > 0 {
		until = req.outcome.start.Add(req.Timeout)
	}
	for _, r := range rows {
		if err = l.takeLease(ctx, m, r, req, until); err != nil {
			break
		}
	}
	if err == nil {
		err = l.installLease()
	}
	if err == nil && ctx.Err() != nil {
		err = fault(req.Key, "the context ended while the lease was granted", ctx.Err())
	}
	if err == nil {
		k.leasing.Done()
		return l, nil
	}
	l.to(stateClosing, err)
	l.leaveAround()
	l.ctx.endWith(fault(l.key, "", err))
	giveBack := func() {
		defer k.leasing.Done()
		_ = l.releaseOwn()
	}
	if !l.ownsAny() || !k.spawn(giveBack) { // who gave up does not wait for the releases
		giveBack()
	}
	return nil, err
}

// takeLease takes one lease, by re-entry or from the table.
func (l *Lock) takeLease(ctx context.Context, m *lease.Manager, r leaseRow, req Request, until time.Time) error {
	if held, err := l.reenterLease(r); held || err != nil {
		return err
	}
	k := l.keeper
	k.everLeased.Store(true)
	caller := ctx
	if len(l.leases) > 0 {
		caller = &l.ctx // which ends with those
	}
	bounded := caller
	if !until.IsZero() {
		// A short Timeout is to meet a free lease although a connection has to be
		// dialled first.
		patient, cancel := context.WithDeadline(caller, until.Add(dialGrace))
		defer cancel()
		warm, done := m.Waiting(patient)
		defer done()
		start := time.Now()
		if _, err := m.Table(warm); err != nil {
			return l.explainLease(r, req, warm, err)
		}
		if late := time.Now().Add(dialGrace / 4); time.Since(start) > time.Millisecond && until.Before(late) {
			until = late
		}
		bounded, cancel = context.WithDeadline(caller, until)
		defer cancel()
	}
	bounded, done := m.Waiting(bounded)
	defer done()
	table, err := m.Table(bounded)
	if err != nil {
		return l.explainLease(r, req, bounded, err)
	}
	companion, err := k.companion(table, r.row)
	if err != nil {
		return err
	}
	waits := k.leaseWait(r, req.outcome)
	defer waits.over()
	le, err := m.Acquire(bounded, lease.Request{
		Key: r.row, Companion: companion, Owner: req.Owner, Shared: req.shared, TTL: req.Lease, Renew: req.Renew, Try: req.Try,
		Waits: waits.begin, Lost: l.leaseLost,
	})
	if err != nil {
		return l.explainLease(r, req, bounded, err)
	}
	k.awaitTold(r.row)
	l.mu.Lock()
	l.leases = append(l.leases, heldLease{Lease: le, key: r.key, row: r.row, own: true})
	l.mu.Unlock()
	return nil
}

// companion is the session lock that goes with a lease: its name is that of no
// lock that a user would take, nor of another table's lease.
func (k *Keeper) companion(table dialect.Leases, row string) (dialect.Name, error) {
	return k.dialect.Resolve("", "\x00lease\x00"+table.Name()+"\x00"+row)
}

// installLease has the keeper know of the lock. Nobody else does yet.
func (l *Lock) installLease() error {
	k := l.keeper
	k.mu.Lock()
	closing := k.closing
	if !closing {
		k.leaseLocks[l] = struct{}{}
	}
	k.mu.Unlock()
	if closing {
		return fault(l.key, "", ErrClosed)
	}
	return l.Err()
}

// explainLease makes the error of a wait that brought no lease.
func (l *Lock) explainLease(r leaseRow, req Request, wait context.Context, err error) error {
	waited := time.Since(req.outcome.start).Round(time.Millisecond)
	switch ended := endedBy(&l.ctx); {
	case ended != nil:
		return fault(r.key, fmt.Sprintf("gave up after %v on the lease %s, %s", waited, r.row, whoLeases(err)), ended)
	case l.keeper.ctx.Err() != nil, errors.Is(err, lease.ErrClosed):
		return fault(r.key, "", ErrClosed)
	case errors.Is(err, lease.ErrRefused),
		endedBy(wait) != nil && l.keeper.dialect.Leases(l.keeper.opts.LeaseTable).Fault(err) == dialect.LeaseFaultOther: // no answer in time
		return fault(r.key, fmt.Sprintf("waited %v for the lease %s, %s", waited, r.row, whoLeases(err)), ErrNotAcquired)
	}
	return fault(r.key, fmt.Sprintf("after %v", waited), errAcquire, err)
}

// endedBy is ctx.Err, except that it looks at the clock: the timer of a dialler, which
// has the context's deadline, can be ahead of the context's own.
func endedBy(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if until, ok := ctx.Deadline(); ok && !time.Now().Before(until) {
		return context.DeadlineExceeded
	}
	return nil
}

// whoLeases says in words who holds the lease that was refused.
func whoLeases(err error) string {
	var no *lease.Refusal
	if !errors.As(err, &no) {
		return "before the table was asked"
	}
	who := "whose holder is not known"
	switch {
	case no.Local && no.Holder != "":
		who = "held by this process as " + no.Holder
	case no.Local:
		who = "held by this process"
	case no.Holder != "":
		who = "held by " + no.Holder
	}
	if no.Left > 0 {
		who += fmt.Sprintf(" for another %v unless renewed", no.Left.Round(time.Millisecond))
	}
	return who
}
