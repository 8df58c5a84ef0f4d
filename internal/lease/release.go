package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// Release ends the lease: renewals, and then the row, which it releases only if
// it still has the lease's owner and token. It works whatever has become of the
// context of Acquire, and has a bound of its own. An error that matches ErrLost
// says that the lease was lost before; any other that nobody knows: the row then
// expires. Further calls return what the first does.
func (l *Lease) Release() error {
	l.once.Do(func() { l.releaseErr = l.release() })
	return l.releaseErr
}

func (l *Lease) release() error {
	m, r := l.m, l.room
	m.mu.Lock()
	if l.state != held {
		defer m.mu.Unlock()
		return &Loss{l.loss}
	}
	l.state = leaving
	m.leaveBeat(l)
	renewing := l.renewing
	r.held, r.busy = nil, true
	r.tenure.turns++
	var comp *companion
	if r.queue.Len() == 0 || r.tenure.over() || m.closing {
		comp = r.takeComp()
	}
	m.mu.Unlock()
	if renewing != nil {
		t := time.NewTimer(cleanup)
		select {
		case <-renewing:
		case <-t.C: // a renewal does not revive a released row
		}
		t.Stop()
	}
	done, err := l.releaseRow(comp)
	m.mu.Lock()
	switch {
	case err == nil && !done:
		l.state, l.loss = lost, errMoved
		err = &Loss{errMoved}
	case err == nil:
		l.state = released
		if !l.wanted {
			m.seen.add(l.req.Key)
		}
	default:
		l.state = released
		err = fmt.Errorf("the release was not confirmed, so that the lease lasts until its expiry, within %v: %w", l.req.TTL, err)
	}
	m.mu.Unlock()
	m.leave(r)
	return err
}

var errMoved = errors.New("the row of the lease has another owner or token")

// releaseRow releases the row, and the companion with it if there is one.
func (l *Lease) releaseRow(comp *companion) (done bool, err error) {
	m := l.m
	t, err := m.Table(m.ctx)
	if err != nil {
		return false, err
	}
	freed := false
	release := func(name *dialect.Name) statement {
		return func(ctx context.Context, q dialect.Querier, s dialect.LeaseServer) (err error) {
			done, freed, err = t.Release(ctx, q, s, l.Row(), name)
			return err
		}
	}
	if comp != nil {
		// A connection may have died without a word: the row is to be released before it
		// expires, and another one takes it, as if the lease had been lost.
		limit := min(max(l.req.TTL/4, 50*time.Millisecond), cleanup/2)
		if err = comp.line.take(context.Background(), limit); err == nil {
			err = comp.line.do(context.Background(), limit, release(&comp.name))
			if err == nil && freed {
				m.mu.Lock()
				comp.uncarry() // before the turn ends: then a line that carries nothing may go
				m.mu.Unlock()
			}
			comp.line.leave()
		}
		switch {
		case err != nil: // again without, below
		case freed:
			return done, nil
		default:
			m.free(comp)
			return done, nil
		}
	}
	was := done
	err = m.later(release(nil))
	if comp != nil && !m.spawn(func() { m.free(comp) }) {
		m.free(comp)
	}
	return done || was, err
}
