package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
	"github.com/lockdb/lockdb/internal/monotime"
)

// Request says which lease to acquire.
type Request struct {
	Key       string       // as the row has it: of internal/lockkey's alphabet
	Companion dialect.Name // the session lock that goes with it
	Owner     string       // as the row has it
	// Shared: other processes may come with the same owner.
	Shared bool
	TTL    time.Duration
	Renew  time.Duration // the interval of renewals, at most TTL/3
	Try    bool          // do not wait
	// Waits is called when the call begins to wait for others; nil is none.
	Waits func()
	// Lost is called once, on a goroutine of the Manager's, when the lease is lost
	// while it is held. It can come before Acquire has returned.
	Lost func(cause error)
}

func (r *Request) waits() {
	if r.Waits != nil {
		r.Waits()
	}
}

// Acquire waits for the lease. If ctx ends first, or with Try somebody else has
// it, the error is a *Refusal; after Close it is ErrClosed. On any error nothing
// is held.
func (m *Manager) Acquire(ctx context.Context, req Request) (*Lease, error) {
	r, err := m.enter(ctx, req)
	if err != nil {
		return nil, err
	}
	l, undo, err := m.claim(ctx, r, req)
	if err == nil {
		return l, nil
	}
	m.mu.Lock()
	if ctx.Err() != nil && !errors.Is(err, ErrClosed) {
		err = r.refusal(ctx.Err())
	}
	quick := undo == nil && r.comp == nil
	m.mu.Unlock()
	// What is to be undone at the server is not waited for, but the turn lasts
	// until it is.
	end := func() {
		if undo != nil {
			undo()
		}
		m.leave(r)
	}
	if quick || !m.spawn(end) {
		end()
	}
	return nil, err
}

// claim claims the row until it is ours. The caller has the turn in the room, and
// before he leaves it calls undo, if it is not nil.
func (m *Manager) claim(ctx context.Context, r *room, req Request) (*Lease, func(), error) {
	told := req.Try
	w := wait{m: m, room: r}
	refused, late, began := false, 0, time.Now()
	for {
		start := monotime.Now()
		g, undo, err := m.ask(ctx, r, req, w.overtaking)
		switch {
		case err != nil && undo == nil && !req.Try && ctx.Err() == nil && m.fault(err) == dialect.LeaseFaultRetry:
			// Some transaction keeps the row, as a fence does until its COMMIT.
			if !told {
				told = true
				req.waits()
			}
			if err := w.poll(ctx, pollMax); err != nil {
				return nil, nil, err
			}
			continue
		case err != nil:
			return nil, undo, err
		case g.Granted:
			undo = func() { m.giveBack(req, g.Token) }
			if ctx.Err() != nil {
				return nil, undo, ctx.Err()
			}
			l, err := m.install(r, req, g.Token, start, refused)
			if l == nil && err == nil {
				if late++; late < attempts {
					continue // the answer was so long under way that no time is left: ask anew
				}
				err = fmt.Errorf("the answers of the server take so long (the last %v) that a lease of %v would be over: use a longer TTL",
					(monotime.Now() - start).Round(time.Millisecond), req.TTL)
			}
			return l, undo, err
		case g.Taken:
			refused = true
			continue // the refusal may be older than the companion: only the next one counts
		}
		refused = true
		if err := m.look(ctx, r, req, &g); err != nil {
			return nil, nil, err
		}
		if g.Known && g.Left > 0 && g.Holder == req.Owner && !w.overtaking {
			w.overtaking = true // it is the caller's own: who has the companion counts as dead
			continue
		}
		w.refused(g)
		if req.Try && g.Known && g.Left <= 0 && g.Left > longAgo && !w.overtaking {
			w.overtaking = true // it has expired, and who has the companion did not notice
			continue
		}
		if free := !g.Known || g.Left <= 0; req.Try && free && time.Since(began) < 2*stuckAfter {
			// Whoever has the companion is about to claim; or he is stuck, or one of
			// this process who has just given up.
			m.linger(ctx, r)
			continue
		}
		if req.Try {
			m.mu.Lock()
			defer m.mu.Unlock()
			return nil, nil, r.refusal(ErrRefused)
		}
		if !told {
			told = true
			req.waits()
		}
		if err := w.wait(ctx, req); err != nil {
			return nil, nil, err
		}
	}
}

// disown releases what an unanswered claim may have brought, so that nobody has
// to wait for its expiry. The caller has the turn, so whatever the row says of
// this owner is of that claim.
func (m *Manager) disown(req Request) {
	t, err := m.Table(m.ctx)
	if err != nil {
		return
	}
	_ = m.later(func(ctx context.Context, q dialect.Querier, s dialect.LeaseServer) error {
		row, found, err := t.Look(ctx, q, req.Key)
		if err == nil && found && row.Owner == req.Owner && row.Left > 0 {
			_, _, err = t.Release(ctx, q, s, dialect.Lease{Key: req.Key, Owner: req.Owner, Token: row.Token}, nil)
		}
		return err
	})
}

// giveBack releases a lease that was granted, and is not wanted.
func (m *Manager) giveBack(req Request, token int64) {
	t, err := m.Table(m.ctx)
	if err != nil {
		return
	}
	_ = m.later(func(ctx context.Context, q dialect.Querier, s dialect.LeaseServer) error {
		_, _, err := t.Release(ctx, q, s, dialect.Lease{Key: req.Key, Owner: req.Owner, Token: token}, nil)
		return err
	})
}
