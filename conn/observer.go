package conn

import "time"

// EventKind names what happened to a lock.
type EventKind string

// The kinds of events.
const (
	EventAcquired EventKind = "acquired" // a lock was granted; Duration is the wait
	EventRefused  EventKind = "refused"  // a lock was not granted; Duration is the wait
	EventReleased EventKind = "released" // a lock was released; Duration is how long it was held
	EventLost     EventKind = "lost"     // a lock was lost; Duration is how long it was held
)

// Event tells an Observer what happened.
type Event struct {
	Kind     EventKind
	Key      string        // the key as the caller gave it
	Session  int64         // the server's id of the session; 0 if there is none
	Duration time.Duration // see the kind
	Err      error         // why, for refused and lost
}

// Observer is told of the life of locks. LockEvent is called on the goroutine
// that caused the event, with no mutex of lockdb held; it must not block.
type Observer interface {
	LockEvent(Event)
}
