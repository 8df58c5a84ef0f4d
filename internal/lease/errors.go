package lease

import (
	"errors"
	"time"
)

// The errors that callers tell apart.
var (
	ErrRefused  = errors.New("held by another")
	ErrLost     = errors.New("lease lost")
	ErrReleased = errors.New("lease released")
	ErrClosed   = errors.New("closed")
)

// Refusal is the error of an acquire that did not get its turn. It matches
// ErrRefused or the error of the context that ended.
type Refusal struct {
	Holder string        // who held the lease when last asked; "" if that is not known
	Left   time.Duration // how long still
	Local  bool          // the holder is this process
	Err    error
}

func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap lets errors.Is reach the reason.
func (r *Refusal) Unwrap() error { return r.Err }

// Loss is the error of a lease that is lost: it matches ErrLost.
type Loss struct{ Cause error }

func (l *Loss) Error() string { return ErrLost.Error() + ": " + l.Cause.Error() }

// Unwrap lets errors.Is reach both.
func (l *Loss) Unwrap() []error { return []error{ErrLost, l.Cause} }
