package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
	"github.com/lockdb/lockdb/internal/monotime"
)

// Lease is a lease that this process holds, or held. It is safe for concurrent use.
type Lease struct {
	m     *Manager
	room  *room
	req   Request
	token int64
	since time.Time
	// wanted: others had it, or its companion, when it was asked for.
	wanted bool

	once       sync.Once // Release
	releaseErr error

	// Guarded by the Manager's mu:
	state      state
	loss       error         // why it is lost
	deadline   time.Duration // when it counts as lost, by monotime
	due        time.Duration // when to renew it, by monotime
	alone      bool          // something had its row: renew it in a statement of its own
	trouble    error         // why the last renewal failed; nil if it did not
	committing int           // fenced COMMITs under way
	renewing   chan struct{} // closed when the renewal under way is over; nil if none is
}

// state is where a lease stands.
//
//	held → leaving → released
//	held → lost
//	leaving → lost   (the row had moved on)
type state uint8

const (
	held state = iota
	leaving
	released
	lost
)

// Lifetime is how long after the start of the last confirmed exchange a lease
// counts as lost. The row's expiry runs for the whole TTL and starts later, so
// ours passes first: 16 % and 100 ms cover what two clocks differ by and how
// long user code takes to stop.
func Lifetime(ttl time.Duration) time.Duration {
	return ttl*84/100 - min(100*time.Millisecond, ttl/20)
}

// install makes the lease of a grant that was asked for at start; nil if the
// answer took so long that little of its time is left.
func (m *Manager) install(r *room, req Request, token int64, start time.Duration, wanted bool) (*Lease, error) {
	deadline := start + Lifetime(req.TTL)
	left := deadline - monotime.Now()
	if left < req.TTL/6 {
		return nil, nil
	}
	l := &Lease{
		m: m, room: r, req: req, token: token, since: time.Now(), wanted: wanted,
		deadline: deadline, due: start + req.Renew,
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closing {
		return nil, ErrClosed
	}
	m.addToBeat(l)
	m.watch(deadline, left)
	r.held, r.busy = l, false
	r.seen = Refusal{}
	delete(m.seen, req.Key)
	return l, nil
}

// Row is the lease as its row has it, for fences.
func (l *Lease) Row() dialect.Lease {
	return dialect.Lease{Key: l.req.Key, Owner: l.req.Owner, Token: l.token, TTL: l.req.TTL}
}

// Token is the fencing token.
func (l *Lease) Token() int64 { return l.token }

// Err is nil while the lease is held as far as this process knows; it looks at
// the clock. Else it matches ErrLost or ErrReleased.
func (l *Lease) Err() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	switch l.state {
	case held:
		if monotime.Now() < l.deadline {
			return nil
		}
		return l.lose(l.overdue())
	case lost:
		return &Loss{l.loss}
	}
	return ErrReleased
}

// overdue tells why the lease is lost. What the driver said is only text: its
// ErrBadConn would have database/sql repeat a Commit. Under mu.
func (l *Lease) overdue() error {
	if l.trouble != nil {
		return fmt.Errorf("no renewal was confirmed for %v (its TTL is %v), the last because of: %v", Lifetime(l.req.TTL), l.req.TTL, l.trouble)
	}
	return fmt.Errorf("no renewal was confirmed for %v (its TTL is %v)", Lifetime(l.req.TTL), l.req.TTL)
}

// Lose says that a fence found that the lease has moved on. tell tells those who
// hold it: a Release that comes of that must find the lease lost, since the row,
// which it would else ask, is under the fence's lock until its transaction ends.
func (l *Lease) Lose(cause error, tell func()) {
	next := func() {}
	l.m.mu.Lock()
	if l.state == held {
		next = l.end(cause)
	}
	l.m.mu.Unlock()
	tell()
	next()
}

// lose ends a lease that is held: Lost is told, and then the turn is the next
// one's. Under mu.
func (l *Lease) lose(cause error) error {
	l.end(cause)()
	return &Loss{cause}
}

// end is lose without what comes next. Under mu, and next need not be.
func (l *Lease) end(cause error) (next func()) {
	l.state, l.loss = lost, cause
	l.m.leaveBeat(l)
	l.room.held, l.room.busy = nil, true
	if l.m.closing { // whoever closes the Manager has released the leases, or knows
		return func() {}
	}
	l.m.running.Add(1)
	return func() {
		go func() {
			defer l.m.running.Done()
			l.tellLost()
			l.m.leave(l.room)
		}()
	}
}

func (l *Lease) tellLost() {
	if l.req.Lost != nil {
		l.req.Lost(&Loss{l.loss})
	}
}

// Committing has renewals leave the row alone, which a fence has under lock,
// until done is called. PostgreSQL's fences do not mind renewals.
func (l *Lease) Committing() (done func()) {
	if l.m.cfg.Dialect == dialect.Postgres {
		return func() {}
	}
	l.m.mu.Lock()
	l.committing++
	l.m.mu.Unlock()
	return func() {
		l.m.mu.Lock()
		l.committing--
		l.m.mu.Unlock()
	}
}

// Moved asks the row whether it is still the lease's.
func (l *Lease) Moved(ctx context.Context) (bool, error) {
	t, err := l.m.Table(ctx)
	if err != nil {
		return false, err
	}
	moved := false
	err = l.m.loosely(ctx, patience, func(ctx context.Context, q dialect.Querier, s dialect.LeaseServer) error {
		gone, err := t.Moved(ctx, q, s, []dialect.Lease{l.Row()})
		moved = len(gone) > 0
		return err
	})
	return moved, err
}
