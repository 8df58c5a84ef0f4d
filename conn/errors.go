package conn

import (
	"database/sql/driver"
	"errors"
	"fmt"
)

// The sentinels; package lockctx documents them for users.
var (
	ErrNotAcquired    = errors.New("lockdb: lock not acquired")
	ErrLost           = errors.New("lockdb: lock lost")
	ErrReleased       = errors.New("lockdb: lock released")
	ErrDeadlock       = errors.New("lockdb: deadlock among locks")
	ErrBusy           = errors.New("lockdb: the lock's session is busy")
	ErrUnsupported    = errors.New("lockdb: not supported")
	ErrClosed         = errors.New("lockdb: database is closed")
	ErrOutcomeUnknown = errors.New("lockdb: the outcome of COMMIT is unknown")
)

// Error is what lockdb reports of a lock: which key, what happened and, where
// there is one, the error of the driver or the context below it.
type Error struct {
	Key  string // the key as the caller gave it, "" if no key is involved
	What string // what was observed and what to do
	is   []error
}

// fault makes an Error that is each of the errors given (errors.Is, errors.As).
// The first one's text leads the message; further ones are appended as causes.
// Of driver.ErrBadConn only the text is kept, wherever the driver said it:
// database/sql would take the Error for it and run the statement again
// elsewhere.
func fault(key, what string, is ...error) *Error {
	e := &Error{Key: key, What: what, is: make([]error, 0, len(is))}
	for _, err := range is {
		if errors.Is(err, driver.ErrBadConn) {
			err = errors.New(err.Error())
		}
		if err != nil {
			e.is = append(e.is, err)
		}
	}
	return e
}

// released is fault(l.key, "", ErrReleased), made where it costs nothing: every
// Close needs it. It is called once.
func (l *Lock) released() *Error {
	l.gone = Error{Key: l.key, is: justReleased}
	return &l.gone
}

var justReleased = []error{ErrReleased}

// Error says what went wrong with which key, and what to do. No password is in it.
func (e *Error) Error() string {
	text := "lockdb"
	if len(e.is) > 0 {
		text = e.is[0].Error()
	}
	if e.Key != "" {
		text += fmt.Sprintf(" (key %q)", e.Key)
	}
	if e.What != "" {
		text += ": " + e.What
	}
	for i, err := range e.is {
		if i > 0 {
			text += ": " + err.Error()
		}
	}
	return text
}

// Unwrap lets errors.Is and errors.As reach the sentinel and the causes.
func (e *Error) Unwrap() []error { return e.is }
