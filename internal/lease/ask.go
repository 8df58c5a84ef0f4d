package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// ask sends one claim. overtake: whoever has the companion, or waits for it, is
// not to be waited for.
func (m *Manager) ask(ctx context.Context, r *room, req Request, overtake bool) (g dialect.Grant, undo func(), err error) {
	over := time.Now().Add(patience)
	unsure := false // a claim may have been granted whose answer did not come
	defer func() {
		if err != nil && unsure && !req.Shared {
			undo = func() { m.disown(req) }
		}
	}()
	m.mu.Lock()
	tries := attempts + len(m.lines) // each of which may have died unnoticed
	m.mu.Unlock()
	conflicts := 0
	for range tries {
		var t dialect.Leases
		if t, err = m.Table(ctx); err != nil {
			return g, nil, err
		}
		var fault dialect.LeaseFault
		g, err = m.askOnce(ctx, r, req, overtake, t)
		if err != nil {
			fault = m.fault(err)
		}
		switch {
		case err == nil:
			return g, nil, nil
		case ctx.Err() != nil, time.Now().After(over), errors.Is(err, ErrClosed):
			unsure = unsure || fault == dialect.LeaseFaultOther && !errors.Is(err, ErrClosed)
			return g, nil, err
		case errors.Is(err, errLineDead):
		case fault == dialect.LeaseFaultOther:
			unsure = true
		case fault == dialect.LeaseFaultNoTable:
			m.forgetTable()
		case fault == dialect.LeaseFaultNoLocks:
			m.plain.Store(true)
		case fault == dialect.LeaseFaultRetry:
			if conflicts++; conflicts == attempts {
				return g, nil, err
			}
			if serr := m.sleep(ctx, time.Millisecond+rand.N(4*time.Millisecond)); serr != nil {
				return g, nil, err
			}
		case fault == dialect.LeaseFaultForbidden:
			return g, nil, fmt.Errorf("leases need SELECT, INSERT and UPDATE on their table: %w", err)
		default:
			return g, nil, err
		}
	}
	return g, nil, err
}

// claimTime is how long a claim may take, of the patience that there is: should its
// connection have died without a word, there is time for another one.
const claimTime = patience / 2

// askOnce sends the claim where the companion is or comes to.
func (m *Manager) askOnce(ctx context.Context, r *room, req Request, overtake bool, t dialect.Leases) (g dialect.Grant, err error) {
	l := dialect.Lease{Key: req.Key, Owner: req.Owner, TTL: req.TTL}
	claim := func(mode dialect.CompanionMode) statement {
		return func(ctx context.Context, q dialect.Querier, s dialect.LeaseServer) (err error) {
			g, err = t.Claim(ctx, q, s, l, dialect.Companion{Mode: mode, Name: req.Companion})
			return err
		}
	}
	m.mu.Lock()
	if !r.comp.alive() {
		r.comp = nil
	}
	comp := r.comp
	full := m.companions >= maxCompanions
	queued := r.await != nil
	l.Seen = comp != nil || m.seen.has(req.Key)
	m.mu.Unlock()
	switch {
	case comp != nil:
		err = comp.line.run(ctx, claimTime, claim(dialect.CompanionIgnored))
		return g, err
	case overtake || m.plain.Load():
		err = m.loosely(ctx, patience, claim(dialect.CompanionIgnored))
		return g, err
	case queued: // at the server for the companion: who gets it is the next
		return g, nil
	case full:
		err = m.loosely(ctx, patience, claim(dialect.CompanionFree))
		return g, err
	}
	ln, err := m.pick(ctx)
	if err != nil {
		return g, err
	}
	defer ln.leave()
	if m.plain.Load() { // as the new line found
		err = ln.do(ctx, claimTime, claim(dialect.CompanionIgnored))
		return g, err
	}
	err = ln.do(ctx, claimTime, claim(dialect.CompanionTaken))
	m.mu.Lock()
	if g.Taken && !ln.dead { // also of a claim that failed, as of one that waited for the row too long
		r.comp, r.tenure = ln.carry(req.Companion), tenure{since: time.Now()}
	}
	m.mu.Unlock()
	return g, err
}

// maxCompanions is how many companions a process keeps. PostgreSQL's lock table
// has room for some thousands, of all who use the server; leases beyond these
// wake those who wait for them less quickly.
const maxCompanions = 500

// look completes a refusal that does not say who holds the lease, and notes it.
func (m *Manager) look(ctx context.Context, r *room, req Request, g *dialect.Grant) error {
	if !g.Known {
		t, err := m.Table(ctx)
		if err != nil {
			return err
		}
		var row dialect.LeaseRow
		found := false
		err = m.loosely(ctx, patience, func(ctx context.Context, q dialect.Querier, _ dialect.LeaseServer) (err error) {
			row, found, err = t.Look(ctx, q, req.Key)
			return err
		})
		switch {
		case err != nil && m.fault(err) == dialect.LeaseFaultNoTable: // any more, so that there is no row
			m.forgetTable()
		case err != nil:
			return err
		}
		g.Known, g.Holder, g.Left, g.Token = found, row.Owner, row.Left, row.Token
	}
	m.mu.Lock()
	delete(m.seen, req.Key)
	r.seen = Refusal{Holder: g.Holder, Left: g.Left}
	if g.Left <= 0 {
		r.seen = Refusal{}
	}
	m.mu.Unlock()
	return nil
}
