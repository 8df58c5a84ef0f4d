package conn

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"
)

// EventKind names what happened to a lock.
type EventKind string

// The kinds of events. A call of Acquire, TryAcquire or AcquireAll (Do's and
// InTx's too) whose arguments are valid gives exactly one acquired or refused,
// and before it one waited if it could not be served at once. Each lock that a
// caller got gives one acquired, and then exactly one released or lost.
const (
	// EventAcquired: a caller got a lock. Duration is how long the call took.
	EventAcquired EventKind = "acquired"
	// EventWaited: the lock is not free, or no session for it is, and the call
	// begins to wait. Duration is how long it took to learn that. The wait ends
	// with the call's acquired or refused, whose Duration includes it.
	EventWaited EventKind = "waited"
	// EventRefused: a call brought no lock. Duration is how long it took, Err
	// what it returns.
	EventRefused EventKind = "refused"
	// EventReleased: a lock was released, by Close of it, of a lock around it
	// or of the *sql.DB. Duration is how long it was held. Err is nil unless
	// the release cost something: a transaction was rolled back, a statement
	// and its session were cut off (it matches ErrReleased then), or the lock
	// was released by the *sql.DB's Close (it matches ErrClosed).
	EventReleased EventKind = "released"
	// EventLost: a lock was lost. Duration is how long it was held, Err the
	// cause of its context. Also, with Keys, that the connection ended on which
	// SQL text had taken locks, if it had been parked with them.
	EventLost EventKind = "lost"
	// EventHandedOn: a lock that was just released went, with its session, to
	// the next who waits for it in this process, without a word to the server.
	// Duration is how long this process has had it from the server.
	EventHandedOn EventKind = "handed on"
	// EventLeading: Lead got the lock, and is about to run its function.
	EventLeading EventKind = "leading"
	// EventLeft: SQL text had left session locks on a connection that its user
	// gave back; Err says what became of them.
	EventLeft EventKind = "left"
	// EventParked: a statement on the *sql.DB took a session lock, whose
	// connection is out of the pool until its goroutine has released it. It comes
	// again after each lock statement on that connection that leaves one held.
	EventParked EventKind = "parked"
	// EventParkedLong: that was a minute ago. Duration is how long exactly.
	EventParkedLong EventKind = "parked for long"
	// EventStranger: SQL text was to release a session lock that its session does
	// not hold, and released nothing. Err says whether another goroutine of this
	// process has taken it by SQL text.
	EventStranger EventKind = "stranger's release"
	// EventDeposed: Lead's function has returned, and the lock is closed. Duration
	// is how long it led. Err is what came of it: it matches ErrLost if the lock
	// was lost, and Lead goes on; else it is what Lead returns.
	EventDeposed EventKind = "deposed"
)

// Event tells an Observer what happened.
type Event struct {
	Kind     EventKind
	Key      string        // the key as the caller gave it; AcquireAll's first in its order
	Keys     []string      // all keys of an AcquireAll, in its order; else nil
	Session  int64         // the server's id of the lock's session; 0 for waited and refused, for leases, and for SQL text
	Duration time.Duration // see the kind
	Err      error         // see the kind
}

// Observer is told of the life of locks.
//
// LockEvent is called with no mutex held, lockdb's or database/sql's: on the
// goroutine of the call that caused the event, or, for a loss, on one of its
// own. Of locks taken in SQL text it can be told while database/sql has their
// connection in its hands: it must not wait for a slot of the pool then. It can
// be called by several goroutines at once. The events of one lock
// come in their order; of one key, released comes before the next acquired of
// this process, unless one of the two locks is nested, and lost may come after.
// Of locks whose Acquire had returned, all have come when the *sql.DB's Close
// returns.
//
// LockEvent must return soon, and not by runtime.Goexit: what it is told of
// waits for it. It may use Held and Stats, but must not acquire or close locks
// or close the *sql.DB. It cannot cost a lock: a panic is recovered, and logged
// as an error with its stack.
type Observer interface {
	LockEvent(Event)
}

// hears tells whether anyone wants to hear of an event of that kind with that
// error; if not, the rest of it need not be found out.
func (k *Keeper) hears(e Event) bool {
	return k.opts.Observer != nil || k.logger().Enabled(context.Background(), e.level())
}

// tell tells the observer and the log. No mutex is held.
func (k *Keeper) tell(e Event) {
	if o := k.opts.Observer; o != nil {
		k.observe(o, e)
	}
	if level := e.level(); k.logger().Enabled(context.Background(), level) {
		k.write(level, e.message(), e.attrs()...)
	}
}

func (k *Keeper) observe(o Observer, e Event) {
	defer func() {
		if v := recover(); v != nil {
			k.write(slog.LevelError, "lockdb: the observer panicked",
				slog.String("event", string(e.Kind)), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
		}
	}()
	o.LockEvent(e)
}

// write logs. It is called in the midst of acquiring and releasing, which a
// handler that panics must not break off; there is no one left to tell of it.
func (k *Keeper) write(level slog.Level, msg string, attrs ...slog.Attr) {
	defer func() { _ = recover() }()
	k.logger().LogAttrs(context.Background(), level, msg, attrs...)
}

// logger is the user's, or what is the default at this moment.
func (k *Keeper) logger() *slog.Logger {
	if k.log != nil {
		return k.log
	}
	return slog.Default()
}

// level: an operator should look at what was lost, or cut off.
func (e Event) level() slog.Level {
	switch e.Kind {
	case EventLeft, EventParkedLong, EventStranger:
		return slog.LevelWarn
	}
	if e.Kind == EventLost || e.Kind == EventReleased && e.Err != nil && !errors.Is(e.Err, ErrClosed) {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func (e Event) message() string {
	switch e.Kind {
	case EventWaited:
		return "lockdb: waiting for a lock"
	case EventRefused:
		return "lockdb: lock not acquired"
	case EventLeading:
		return "lockdb: leading"
	case EventDeposed:
		return "lockdb: no longer leading"
	case EventLeft:
		return "lockdb: session locks were left on a connection"
	case EventParked:
		return "lockdb: a connection is parked, with a session lock taken in SQL text"
	case EventParkedLong:
		return "lockdb: a connection has been parked for long: is its session lock going to be released?"
	case EventStranger:
		return "lockdb: SQL text released no session lock, since its session does not hold it"
	case EventReleased:
		if e.level() == slog.LevelWarn {
			return "lockdb: lock closed with work under way"
		}
	}
	return "lockdb: lock " + string(e.Kind)
}

func (e Event) attrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 4)
	if e.Keys != nil {
		attrs = append(attrs, slog.Any("keys", e.Keys))
	} else {
		attrs = append(attrs, slog.String("key", e.Key))
	}
	if e.Session != 0 {
		attrs = append(attrs, slog.Int64("session", e.Session))
	}
	span := "held"
	switch e.Kind {
	case EventAcquired, EventWaited, EventRefused:
		span = "waited"
	}
	attrs = append(attrs, slog.Duration(span, e.Duration))
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	return attrs
}
