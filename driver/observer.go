package driver

import "github.com/lockdb/lockdb/conn"

// Observer is told of the life of locks: see WithObserver. What its method
// LockEvent may do, and when it is called, is documented at [conn.Observer].
type Observer = conn.Observer

// Event is what an Observer is told. Its fields are documented at [conn.Event].
type Event = conn.Event

// EventKind names what happened to a lock. [conn.EventKind] documents what
// Duration and Err are with each.
type EventKind = conn.EventKind

// The kinds of events.
const (
	EventAcquired = conn.EventAcquired // a call brought a lock
	EventWaited   = conn.EventWaited   // a call begins to wait for a lock that is not free
	EventRefused  = conn.EventRefused  // a call brought no lock
	EventReleased = conn.EventReleased // a lock was released
	EventLost     = conn.EventLost     // a lock was lost
	EventHandedOn = conn.EventHandedOn // a released lock went to the next in this process
	EventLeading  = conn.EventLeading  // Lead got the lock, and runs its function
	EventDeposed  = conn.EventDeposed  // Lead's function has returned

	// Of session locks that are taken in SQL text:

	EventLeft       = conn.EventLeft       // they were left on a connection that was given back
	EventParked     = conn.EventParked     // their connection is out of the pool
	EventParkedLong = conn.EventParkedLong // and has been for a minute
	EventStranger   = conn.EventStranger   // a release released nothing
)
