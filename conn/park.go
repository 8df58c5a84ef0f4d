package conn

import (
	"context"
	"database/sql/driver"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockdb/lockdb/internal/sqlscan"
)

// parkedSession is a conn's own session that was left with locks by a statement
// on the *sql.DB itself: it is out of the pool, and at rest. Its owner is the
// goroutine that took the locks, as a session would be on a connection of its
// own: the next lock statement of that goroutine takes it along.
type parkedSession struct {
	own    phys
	ledger rawLedger
	since  time.Time
	long   *time.Timer
}

// parking is where a keeper has parked sessions, and those that hold nothing any
// more and whose conn got another one meanwhile.
type parking struct {
	count atomic.Int64 // of byOwner

	mu      sync.Mutex // guards what follows; nothing is called under it
	byOwner map[int64]*parkedSession
	spares  []spare
	closed  bool
}

type spare struct {
	own   phys
	since time.Time
}

// parkedLong is how long a session is parked before an operator hears of it.
const parkedLong = time.Minute

// The spare sessions that are kept for conns without one, and for how long.
const (
	maxSpares = 4
	spareTime = time.Minute
)

// park takes the own session out of the conn, which goes back to the pool
// without one. false: the keeper is closed.
func (c *conn) park() bool {
	k := c.keeper
	p := &parkedSession{own: c.own, ledger: c.ledger, since: time.Now()}
	k.parked.mu.Lock()
	if k.parked.closed {
		k.parked.mu.Unlock()
		return false
	}
	if k.parked.byOwner == nil {
		k.parked.byOwner = make(map[int64]*parkedSession)
	}
	old := k.parked.byOwner[p.ledger.owner]
	k.parked.byOwner[p.ledger.owner] = p
	p.long = time.AfterFunc(parkedLong, func() { k.parkedLong(p) })
	k.parked.count.Store(int64(len(k.parked.byOwner)))
	k.parked.mu.Unlock()
	if old != nil { // two statements of one goroutine at once: result sets that overlap
		k.endParked(old)
	}
	c.leaveOwn()
	k.tell(Event{Kind: EventParked, Key: firstOf(p.ledger.locks), Keys: slices.Clone(p.ledger.locks)})
	return true
}

// leaveOwn has the conn know its own session no more.
func (c *conn) leaveOwn() {
	own := c.own
	c.keeper.checker.CompareAndSwap(nil, &own) // for CheckNamedValue without a session
	c.own, c.open, c.ledger = phys{}, false, rawLedger{}
	c.generation++
}

// takeParked has the conn take the parked session over that a lock statement is
// for: its goroutine's, or, to release, an orphan's with a lock that it names.
func (c *conn) takeParked(query string, args []driver.NamedValue, v sqlscan.Verdict) error {
	k, me := c.keeper, goid()
	k.parked.mu.Lock()
	p := k.parked.byOwner[me]
	if p == nil && v.Has(sqlscan.MayUnlock) {
		call, plain := k.dialect.RawPlain(query, args)
		locks, _ := k.dialect.RawLocks(query, args)
		if plain && call.Lock != "" {
			locks = append(locks, call.Lock)
		}
		var candidates []*parkedSession
		for _, have := range k.parked.byOwner {
			if have.ledger.may(locks) {
				candidates = append(candidates, have)
			}
		}
		if len(candidates) > 0 {
			alive := goroutines()
			for _, have := range candidates {
				if !alive[have.ledger.owner] {
					p = have
					break
				}
			}
		}
	}
	if p == nil {
		k.parked.mu.Unlock()
		return nil
	}
	k.parked.drop(p)
	k.parked.mu.Unlock()
	p.long.Stop()
	if c.open {
		k.keepSpare(c.own)
	}
	c.leaveOwn()
	c.own, c.open, c.ledger = p.own, true, p.ledger
	c.ledger.owner = me
	return nil
}

// may tells whether any of these locks may be held.
func (l *rawLedger) may(locks []string) bool {
	return slices.ContainsFunc(locks, func(want string) bool {
		return l.others || slices.ContainsFunc(l.locks, func(have string) bool { return strings.EqualFold(have, want) })
	})
}

// drop takes a session out. Under mu.
func (p *parking) drop(s *parkedSession) {
	delete(p.byOwner, s.ledger.owner)
	p.count.Store(int64(len(p.byOwner)))
}

// endParked closes a parked session, and so releases what it holds.
func (k *Keeper) endParked(p *parkedSession) {
	p.long.Stop()
	_ = p.own.dc.Close()
}

// keepSpare keeps a session without locks for a conn that has none.
func (k *Keeper) keepSpare(own phys) {
	p := &k.parked
	p.mu.Lock()
	now := time.Now()
	p.spares = append(p.spares, spare{own, now})
	var old []spare
	for len(p.spares) > maxSpares || len(p.spares) > 0 && (p.closed || now.Sub(p.spares[0].since) > spareTime) {
		old = append(old, p.spares[0])
		p.spares = p.spares[1:]
	}
	p.mu.Unlock()
	for _, s := range old {
		_ = s.own.dc.Close()
	}
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

// closeParked ends all: with the *sql.DB its locks go.
func (k *Keeper) closeParked() {
	p := &k.parked
	p.mu.Lock()
	p.closed = true
	parked, spares := p.byOwner, p.spares
	p.byOwner, p.spares = nil, nil
	p.count.Store(0)
	p.mu.Unlock()
	for _, s := range parked {
		k.endParked(s)
	}
	for _, s := range spares {
		_ = s.own.dc.Close()
	}
}

// parkedLong tells an operator of a session that has been parked for long.
func (k *Keeper) parkedLong(p *parkedSession) {
	k.parked.mu.Lock()
	here := k.parked.byOwner[p.ledger.owner] == p
	k.parked.mu.Unlock()
	if here {
		k.tell(Event{Kind: EventParkedLong, Key: firstOf(p.ledger.locks), Keys: slices.Clone(p.ledger.locks), Duration: time.Since(p.since)})
	}
}

// strangerReleases tells of a release that released nothing, of a lock that
// another goroutine of this process has parked.
func (k *Keeper) strangerReleases(lock string, me int64) {
	if k.parked.count.Load() == 0 || lock == "" {
		return
	}
	k.parked.mu.Lock()
	found := false
	for owner, p := range k.parked.byOwner {
		found = found || owner != me && p.ledger.may([]string{lock})
	}
	k.parked.mu.Unlock()
	if found {
		k.tell(Event{Kind: EventStranger, Key: lock})
	}
}

// heldParked are the locks of parked sessions, as far as they are known by name.
func (k *Keeper) heldParked() []HeldLock {
	var held []HeldLock
	k.parked.mu.Lock()
	defer k.parked.mu.Unlock()
	for _, p := range k.parked.byOwner {
		for _, name := range p.ledger.locks {
			held = append(held, HeldLock{Key: name, Kind: kindRaw, Since: p.since, Parked: true})
		}
	}
	return held
}
