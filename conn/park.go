package conn

import (
	"context"
	"database/sql/driver"
	"errors"
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
	long   *time.Timer
}

// parking is where a keeper has parked sessions, and those that hold nothing any
// more and whose conn got another one meanwhile.
type parking struct {
	count  atomic.Int64 // of sessions
	census census

	mu sync.Mutex // guards what follows; nothing is called under it
	// A goroutine can have several: it had result sets open at once.
	sessions []*parkedSession // the most recently parked last
	spares   []spare
	trim     *time.Timer // closes spares; nil if there are none
	closed   bool
}

// parkedLong is how long a session is parked before an operator hears of it.
const parkedLong = time.Minute

// park takes the own session out of the conn, which goes back to the pool
// without one. false: the keeper is closed.
func (c *conn) park() bool {
	k := c.keeper
	p := &parkedSession{own: c.own, ledger: c.ledger}
	p.ledger.parked = time.Now()
	c.unprepare()
	k.parked.mu.Lock()
	if k.parked.closed {
		k.parked.mu.Unlock()
		return false
	}
	p.long = time.AfterFunc(parkedLong, func() { k.parkedLong(p) })
	k.parked.sessions = append(k.parked.sessions, p)
	k.parked.count.Store(int64(len(k.parked.sessions)))
	k.parked.mu.Unlock()
	c.leaveOwn()
	k.tell(Event{Kind: EventParked, Key: firstOf(p.ledger.locks), Keys: slices.Clone(p.ledger.locks)})
	return true
}

// leaveOwn has the conn know its own session no more.
func (c *conn) leaveOwn() {
	own := c.own
	c.keeper.checker.CompareAndSwap(nil, &own) // for CheckNamedValue without a session
	c.own, c.open, c.ledger = phys{}, false, rawLedger{}
}

// takeParked has the conn take the parked session over that a lock statement is
// for: its goroutine's, or, to release, an orphan's with a lock that it names.
func (c *conn) takeParked(ctx context.Context, query string, args []driver.NamedValue, v sqlscan.Verdict) {
	k := c.keeper
	locks, _ := k.dialect.RawLocks(query, args)
	// What takes a lock, too, would be granted the orphan's.
	releases := v.Has(sqlscan.MayUnlock) && k.dialect.RawOnlyReleases(query)
	for {
		p := k.parked.takeFor(goid(), locks, releases)
		if p == nil {
			return
		}
		p.long.Stop()
		if !p.alive(ctx) {
			k.endParked(p)
			k.lostRaw(p.ledger)
			continue
		}
		if c.open {
			c.unprepare()
			k.keepSpare(c.own)
		}
		c.leaveOwn()
		c.own, c.open, c.ledger = p.own, true, p.ledger
		return
	}
}

// takeFor takes out the session that a goroutine's statement is for, with a
// preference for one that may hold a lock that it names.
func (p *parking) takeFor(me int64, locks []string, releases bool) *parkedSession {
	p.mu.Lock()
	defer p.mu.Unlock()
	var mine, others []*parkedSession
	ledgers := make(map[*parkedSession]rawLedger) // to be read without mu
	for _, s := range slices.Backward(p.sessions) {
		switch named := s.ledger.may(locks); {
		case s.ledger.owner == me && named:
			return p.drop(s)
		case s.ledger.owner == me:
			mine = append(mine, s)
		case named && releases:
			others = append(others, s)
			ledgers[s] = s.ledger
		}
	}
	if len(others) > 0 {
		p.mu.Unlock() // the census may take its time
		others = slices.DeleteFunc(others, func(s *parkedSession) bool {
			return ledgers[s].owner != nobody && p.census.lives(ledgers[s].owner, ledgers[s].parked)
		})
		p.mu.Lock()
	}
	for _, s := range others {
		if slices.Contains(p.sessions, s) {
			s.ledger.owner = nobody // which need not be found out again
			return p.drop(s)
		}
	}
	for _, s := range mine {
		if slices.Contains(p.sessions, s) {
			return p.drop(s)
		}
	}
	return nil
}

// nobody owns what a goroutine has left that has ended.
const nobody = 0

// alive tells whether the session can be used. It costs the lock if it cannot, so
// it is not for the caller's context to end that.
func (p *parkedSession) alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupBound)
	defer cancel()
	return p.own.usable(ctx)
}

// may tells whether any of these locks may be held.
func (l *rawLedger) may(locks []string) bool {
	return slices.ContainsFunc(locks, func(want string) bool {
		return l.others || slices.ContainsFunc(l.locks, func(have string) bool { return strings.EqualFold(have, want) })
	})
}

// drop takes a session out. Under mu.
func (p *parking) drop(s *parkedSession) *parkedSession {
	p.sessions = slices.DeleteFunc(p.sessions, func(have *parkedSession) bool { return have == s })
	p.count.Store(int64(len(p.sessions)))
	return s
}

// endParked closes a parked session, and so releases what it holds.
func (k *Keeper) endParked(p *parkedSession) {
	p.long.Stop()
	_ = p.own.dc.Close()
}

// closeParked ends all: with the *sql.DB its locks go.
func (k *Keeper) closeParked() {
	p := &k.parked
	p.mu.Lock()
	p.closed = true
	parked, spares := p.sessions, p.spares
	p.sessions, p.spares = nil, nil
	if p.trim != nil {
		p.trim.Stop()
	}
	p.count.Store(0)
	p.mu.Unlock()
	var ends sync.WaitGroup // each may wait for a network that is gone
	for _, s := range parked {
		ends.Go(func() { k.endParked(s) })
	}
	for _, s := range spares {
		ends.Go(func() { _ = s.own.dc.Close() })
	}
	ends.Wait()
}

// parkedLong tells an operator of a session that has been parked for long.
func (k *Keeper) parkedLong(p *parkedSession) {
	k.parked.mu.Lock()
	here := slices.Contains(k.parked.sessions, p)
	k.parked.mu.Unlock()
	if here {
		k.tell(Event{Kind: EventParkedLong, Key: firstOf(p.ledger.locks), Keys: slices.Clone(p.ledger.locks), Duration: time.Since(p.ledger.parked)})
	}
}

var (
	errAnothers  = errors.New("another goroutine of this process has taken it")
	errNotTheirs = errors.New("the session that was asked does not hold it")
)

// releasedNothing tells of a release that the server answered with no.
func (k *Keeper) releasedNothing(lock string) {
	me, err := goid(), errNotTheirs
	k.parked.mu.Lock()
	for _, p := range k.parked.sessions {
		if p.ledger.owner != me && p.ledger.may([]string{lock}) {
			err = errAnothers
		}
	}
	k.parked.mu.Unlock()
	k.tell(Event{Kind: EventStranger, Key: lock, Err: err})
}

// lostRaw tells that a connection has ended that had been parked with locks.
func (k *Keeper) lostRaw(l rawLedger) {
	k.tell(Event{
		Kind: EventLost, Key: firstOf(l.locks), Keys: slices.Clone(l.locks), Duration: time.Since(l.parked),
		Err: fault(firstOf(l.locks), "the connection ended on which SQL text had taken it", ErrLost),
	})
}

// heldParked are the locks of parked sessions, as far as they are known by name.
func (k *Keeper) heldParked() []HeldLock {
	var held []HeldLock
	k.parked.mu.Lock()
	defer k.parked.mu.Unlock()
	for _, p := range k.parked.sessions {
		for _, name := range p.ledger.locks {
			held = append(held, HeldLock{Key: name, Kind: kindRaw, Since: p.ledger.parked, Parked: true})
		}
	}
	return held
}
