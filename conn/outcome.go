package conn

import (
	"slices"
	"time"
)

// outcome is what becomes of one call of Acquire, as observers and counters see
// it: it may have to wait, and it ends with a lock or an error. It stays on the
// goroutine of the call.
type outcome struct {
	keeper *Keeper
	key    string
	keys   []string // of AcquireAll
	start  time.Time
	waited bool
	told   *bool // the request's waited
}

// opens begins the outcome of a call.
func (o *outcome) opens(k *Keeper, req Request) {
	*o = outcome{keeper: k, key: req.Key, start: time.Now(), told: req.waited}
	if len(req.more) > 0 {
		o.keys = append(o.keys, req.Key)
		for _, n := range req.more {
			o.keys = append(o.keys, n.key)
		}
	}
}

// waits says that the call begins to wait: the first time counts.
func (o *outcome) waits() {
	if o.waited {
		return
	}
	o.waited = true
	if o.told != nil {
		*o.told = true
	}
	o.keeper.count.waiting.Add(1)
	o.keeper.count.waited.Add(1)
	o.tell(Event{Kind: EventWaited})
}

// end says what the call brought.
func (o *outcome) end(l *Lock, err error) {
	c := &o.keeper.count
	if o.waited {
		c.waiting.Add(-1)
		c.waitTime.Add(int64(waited(o.start, l)))
	}
	if err != nil {
		c.refused.Add(1)
		o.tell(Event{Kind: EventRefused, Err: err})
		return
	}
	c.acquired.Add(1)
	o.tell(Event{Kind: EventAcquired, Session: l.sessionID()})
	l.known()
}

// waited is how long a call has waited, which brought that lock, or none. Where the
// grant was its end, the clock has been read then; by who hands the lock on, before
// he sees who waits: that one may have come since.
func waited(start time.Time, l *Lock) time.Duration {
	if l != nil && !l.isLease && l.keys == nil {
		return max(0, l.since.Sub(start))
	}
	return time.Since(start)
}

func (o *outcome) tell(e Event) {
	if o.keeper.hears(e) {
		e.Key, e.Keys, e.Duration = o.key, slices.Clone(o.keys), time.Since(o.start)
		o.keeper.tell(e)
	}
}

// handedOn says that the lock just released goes to the next in this process.
func (k *Keeper) handedOn(l *Lock) {
	k.count.handedOn.Add(1)
	e := Event{Kind: EventHandedOn, Key: l.key, Session: l.sess.server.SessionID}
	if k.hears(e) {
		e.Duration = time.Since(l.tenure.since)
		k.tell(e)
	}
}

// telling is what observers know of a lock. A lock that ends before its caller
// got it, or that no caller gets (the parts of AcquireAll), stays unknown.
//
//	unknown → acquired → ended
type telling uint8

const (
	toldNothing telling = iota
	toldAcquired
	toldEnd
)

// known says that observers have been told of the grant. If the lock has ended
// since, its end is told now, and so always after the grant.
func (l *Lock) known() {
	l.mu.Lock()
	l.told = toldAcquired
	over := l.state >= stateReleased
	l.mu.Unlock()
	if over {
		l.tellEnd()
	}
}

// tellEnd tells observers, once, that the lock has ended, if it has, and before
// that of the locks that ended with it. Whoever ends a lock calls it, with no
// mutex held.
func (l *Lock) tellEnd() {
	for _, e := range l.ends(nil) {
		l.keeper.tell(e)
	}
}

// ends counts the end that tellEnd is to tell, and adds the event to events if
// anyone wants to hear of it.
func (l *Lock) ends(events []Event) []Event {
	l.mu.Lock()
	nested := l.ended
	l.ended = nil
	e := Event{Kind: EventReleased, Err: l.note}
	if l.state == stateLost {
		e.Kind, e.Err = EventLost, l.err
	}
	over := l.told == toldAcquired && l.state >= stateReleased
	if over {
		l.told = toldEnd
	}
	l.mu.Unlock()
	for _, n := range nested {
		events = n.ends(events)
	}
	if !over {
		return events
	}
	if e.Kind == EventLost {
		l.keeper.count.lost.Add(1)
	} else {
		l.keeper.count.released.Add(1)
	}
	if l.keeper.hears(e) {
		e.Key, e.Keys, e.Session = l.key, slices.Clone(l.keys), l.sessionID()
		e.Duration = time.Since(l.since)
		events = append(events, e)
	}
	return events
}

// endedWith has the end of a nested lock told with that of l, whose Close ended
// it: at that moment a mutex is held.
func (l *Lock) endedWith(nested *Lock) {
	l.mu.Lock()
	l.ended = append(l.ended, nested)
	l.mu.Unlock()
}

// remark is what Close says, and observers hear, of a release that cost something.
func (l *Lock) remark(note error) {
	l.mu.Lock()
	l.note = note
	l.mu.Unlock()
}
