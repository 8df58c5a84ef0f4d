package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// Request says what to acquire and how long to wait for it.
type Request struct {
	Key     string
	Name    *dialect.Name     // nil: what the dialect makes of Key
	more    []nestedKey       // of AcquireAll: the other keys, sorted
	part    bool              // it is one of these
	begin   *driver.TxOptions // of InTx: begin such a transaction with the grant, if it costs nothing
	Timeout time.Duration     // bounds the wait; 0 is no bound
	Try     bool              // do not wait
	Shared  bool              // multiplexed

	// Lease, if not 0, is the TTL of a lease, which the lock then is.
	Lease  time.Duration
	Owner  string        // of the lease; "" is the keeper's own
	Renew  time.Duration // the interval of renewals; 0 is a third of the TTL
	shared bool          // others may come with the same owner

	outcome *outcome
	waiter  *waiter // whose outcome it is; nil for a lease
	waited  *bool   // becomes true when the call waits; nil if nobody asks
}

const (
	// slice is how long a wait at the server lasts: a blocked
	// pg_advisory_lock holds a snapshot that CREATE INDEX CONCURRENTLY and
	// vacuum wait for, and a wait cannot be broken off without closing the
	// connection. It is shorter than PostgreSQL's deadlock_timeout (1 s): who
	// holds nothing need not take part in its searches. MySQL has whole seconds.
	slice = 900 * time.Millisecond
	// grace is how long a call that ought to take one round trip may go on
	// after the end of the context of who waits for it, before its connection
	// is given up.
	grace = 250 * time.Millisecond
	// dialGrace lets a short Timeout meet a free lock although a session has
	// to be dialled first.
	dialGrace = 40 * time.Millisecond
)

// Acquire takes a lock. See package lockctx for what the errors mean.
func (k *Keeper) Acquire(ctx context.Context, req Request) (*Lock, error) {
	if req.Lease != 0 {
		return k.acquireLeases(ctx, []string{req.Key}, req)
	}
	w := waiters.Get().(*waiter)
	name, err := w.resolve(k, req)
	if err != nil {
		return nil, err
	}
	w.shared, w.parent, w.begin = req.Shared, ctx, req.begin
	w.opens(k, req)
	req.outcome, req.waiter = &w.outcome, w
	if err := ctx.Err(); err != nil {
		err = fault(req.Key, "the context ended before the lock was asked for", err)
		req.outcome.end(nil, err)
		return nil, err
	}
	l, err := k.acquire(ctx, req, name)
	if err == nil && len(req.more) > 0 {
		err = k.acquireMore(l, req)
	}
	req.outcome.end(l, err)
	w.recycle()
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (k *Keeper) acquire(ctx context.Context, req Request, name dialect.Name) (*Lock, error) {
	if l := k.sharedAround(ctx, req, name); l != nil {
		if req.Shared {
			return k.reenterShared(ctx, req, l)
		}
		return nil, fault(l.key, "the context holds it as a multiplexed lock, whose session is not its own: use Multiplexed here, too, or leave it out there", ErrDeadlock)
	}
	if outer, ok := ctx.Value(k).(*Lock); ok && outer.Err() == nil {
		return k.nest(ctx, outer, req, name)
	}
	if req.Shared {
		return k.acquireShared(ctx, req, name)
	}
	k.everLocked.Store(true)
	return k.acquireInRoom(ctx, req, name)
}

// acquireInRoom acquires what no lock around it has.
func (k *Keeper) acquireInRoom(ctx context.Context, req Request, name dialect.Name) (*Lock, error) {
	w := req.waiter
	w.until, _ = ctx.Deadline()
	if over := w.start.Add(req.Timeout); req.Timeout > 0 && (w.until.IsZero() || over.Before(w.until)) {
		w.until = over
	}

	k.mu.Lock()
	if k.closing {
		k.mu.Unlock()
		return nil, fault(req.Key, "", ErrClosed)
	}
	r := k.roomFor(name)
	if r.busy || r.holder != nil || r.first != nil {
		if req.Try {
			k.mu.Unlock()
			return nil, k.explain(ctx, r, w, errTimeout)
		}
		r.pushBack(w)
		k.mu.Unlock()
		return k.await(ctx, r, w, req.Timeout)
	}
	r.busy = true
	k.mu.Unlock()
	if req.Shared {
		return k.attemptShared(ctx, r, w, req)
	}
	return k.attempt(ctx, r, w, req)
}

func (k *Keeper) resolve(req Request) (dialect.Name, error) {
	name, err := k.dialect.Resolve(k.opts.Namespace, req.Key)
	switch {
	case err != nil || req.Name == nil:
		return name, err
	case k.dialect != dialect.Postgres:
		return name, fault(req.Key, "AdvisoryID and AdvisoryPair name PostgreSQL's advisory locks: on MySQL and MariaDB the key is the name", ErrUnsupported)
	}
	return *req.Name, nil
}

// attempt tries for a free room's lock on the caller's goroutine: an
// uncontended acquire is one round trip and no switch. Refused, it leaves the
// wait at the server to a goroutine of the keeper's.
func (k *Keeper) attempt(ctx context.Context, r *room, w *waiter, req Request) (*Lock, error) {
	wait := ctx
	if req.Timeout > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeoutCause(ctx, max(req.Timeout, req.Timeout+dialGrace), errTimeout) // the sum may overflow
		defer cancel()
	}
	tried := false
	defer func() {
		if !tried {
			k.giveUp(r, nil)
		}
	}()
	s, granted, err := k.try(wait, r.name, req)
	tried = true
	switch {
	case err != nil:
		k.giveUp(r, nil)
		return nil, k.explain(ctx, r, w, err)
	case granted && ctx.Err() != nil && len(req.more) > 0:
		s.lose(ctx.Err()) // and with it however many locks it got
		k.giveUp(r, nil)
		return nil, k.explain(ctx, r, w, ctx.Err())
	case granted && ctx.Err() != nil:
		k.spawn(func() {
			xact := s.begun != nil && s.begun.xact
			k.dropBegun(s)
			if xact { // the lock went with it
				k.giveUp(r, s)
			} else {
				k.deliver(r, s)
			}
		})
		return nil, k.explain(ctx, r, w, ctx.Err())
	case granted:
		now := time.Now()
		l, err := k.install(r, w, s, tenure{since: now}, now)
		if err == nil {
			return l, nil
		}
		if req.Try || len(req.more) > 0 || !errors.Is(err, errPeerClosed) {
			k.giveUp(r, nil)
			return nil, err
		}
		s = nil // it ended in that moment: the wait goes on, on another
	case req.Try:
		k.lookWhile(ctx, r, s)
		return nil, k.explain(ctx, r, w, errTimeout)
	}
	k.mu.Lock()
	if k.closing {
		k.mu.Unlock()
		k.giveUp(r, s)
		return nil, fault(w.key, "", ErrClosed)
	}
	r.pushFront(w) // it came before those who queued meanwhile
	k.mu.Unlock()
	k.spawn(func() { k.contend(r, s) })
	return k.await(ctx, r, w, req.Timeout)
}

var errTimeout = errors.New("the time to wait is over")

// try asks the server once, on a free session. A session that turns out dead
// was idle when the server closed it, and is replaced; what the server may
// have granted on it ends with it.
func (k *Keeper) try(ctx context.Context, name dialect.Name, req Request) (s *session, granted bool, err error) {
	for range k.opts.MaxIdleSessions + 2 {
		s, err = k.session(ctx, name, req.outcome, req.Try)
		if err != nil {
			return nil, false, err
		}
		xact := req.begin != nil && k.pooled(s)
		err = k.supported(s)
		if err == nil && len(req.more) > 0 {
			err = s.takesMore()
		}
		if err != nil && !xact {
			k.put(s)
			return nil, false, err
		}
		var dead bool
		granted, dead, err = k.ask(ctx, s, func(ctx context.Context) (bool, error) {
			if xact {
				return s.xactLock(ctx, name, *req.begin, false)
			}
			if len(req.more) > 0 {
				return k.tryAll(ctx, s, name, req.more)
			}
			if req.begin != nil {
				if granted, asked, err := s.tryAndBegin(ctx, name, *req.begin); asked {
					return granted, err
				}
			}
			return k.dialect.Try(ctx, &s.phys, name)
		})
		if err == nil {
			return s, granted, nil
		}
		if !dead && k.dialect.Classify(err) == dialect.ClassLockTable {
			k.emptyLockTable(s)
		}
		s.lose(err) // and with it whatever may have come of the statement
		if !dead {
			return nil, false, err
		}
		if ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
	}
	return nil, false, err
}

// install makes the lock of a grant and gives it the room. The caller holds
// neither mu nor io.
func (k *Keeper) install(r *room, w *waiter, s *session, t tenure, since time.Time) (*Lock, error) {
	l := &Lock{keeper: k, key: w.key, name: r.name, room: r, sess: s, since: since, tenure: t}
	l.shared = w.shared
	l.xact = s.begun != nil && s.begun.xact
	l.opens(w.parent)
	k.mu.Lock()
	if k.closing {
		k.mu.Unlock()
		s.lose(ErrClosed)
		return nil, fault(w.key, "", ErrClosed)
	}
	if !s.enter(l) {
		k.mu.Unlock()
		return nil, fault(w.key, "", errAcquire, errPeerClosed)
	}
	if l.shared {
		k.share(s)
		k.multiplexing.held++
	}
	r.busy, r.holder = false, l
	k.list(l)
	k.mu.Unlock()
	return l, nil
}
