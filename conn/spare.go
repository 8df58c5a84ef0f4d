package conn

import (
	"context"
	"slices"
	"time"
)

// spare is a session that holds nothing any more, and whose conn got another one
// meanwhile.
type spare struct {
	own   phys
	since time.Time
}

// The spare sessions that are kept for conns without one, and for how long.
const (
	maxSpares = 4
	spareTime = time.Minute
)

// keepSpare keeps a session without locks for a conn that has none.
func (k *Keeper) keepSpare(own phys) {
	p := &k.parked
	p.mu.Lock()
	p.spares = append(p.spares, spare{own, time.Now()})
	if p.trim == nil && !p.closed {
		p.trim = time.AfterFunc(spareTime, func() { k.spawn(k.trimSpares) })
	}
	surplus := p.surplus()
	p.mu.Unlock()
	for _, s := range surplus {
		_ = s.own.dc.Close()
	}
}

// trimSpares closes those that nobody took for long.
func (k *Keeper) trimSpares() {
	p := &k.parked
	p.mu.Lock()
	surplus := p.surplus()
	if len(p.spares) > 0 {
		p.trim.Reset(spareTime)
	} else {
		p.trim = nil
	}
	p.mu.Unlock()
	for _, s := range surplus {
		_ = s.own.dc.Close()
	}
}

// surplus takes out the spares that are not to be kept. Under mu.
func (p *parking) surplus() []spare {
	n := max(0, len(p.spares)-maxSpares)
	for n < len(p.spares) && (p.closed || time.Since(p.spares[n].since) >= spareTime) {
		n++
	}
	surplus := slices.Clone(p.spares[:n])
	p.spares = slices.Delete(p.spares, 0, n)
	return surplus
}

// takeSpare gives a session that nobody uses, if there is a living one.
func (k *Keeper) takeSpare(ctx context.Context) (own phys, ok bool) {
	p := &k.parked
	for {
		p.mu.Lock()
		n := len(p.spares)
		if n == 0 {
			p.mu.Unlock()
			return phys{}, false
		}
		s := p.spares[n-1]
		p.spares = p.spares[:n-1]
		p.mu.Unlock()
		if s.own.usable(ctx) {
			return s.own, true
		}
		_ = s.own.dc.Close()
	}
}

// usable tells whether a session that was idle can be used again, as database/sql
// would find out.
func (p *phys) usable(ctx context.Context) bool {
	switch {
	case p.pg != nil && p.pg.IsClosed(), p.validator != nil && !p.validator.IsValid():
		return false
	}
	return p.resetter == nil || p.resetter.ResetSession(ctx) == nil
}
