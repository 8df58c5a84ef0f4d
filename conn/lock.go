package conn

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// Lock is a lock that this process holds, or held. It is safe for concurrent
// use. Whoever acquired it must Close it.
type Lock struct {
	keeper *Keeper
	key    string
	keys   []string // of AcquireAll; set before it returns
	name   dialect.Name
	room   *room    // nil if it was not acquired in one
	sess   *session // never changes; whether it is still ours, state tells; nil for a lease
	ctx    lockCtx
	since  time.Time
	tenure tenure

	listed   bool // guarded by the keeper's mu: see list
	xact     bool // the lock is a transaction's own and ends with it
	bare     bool // there is no lock, only the session: see Pin
	shared   bool // it is multiplexed: the session is not its own
	reentry  bool // the server knows nothing of it
	part     bool // of the lock of AcquireAll, its outer: no caller has it
	isLease  bool
	shutDown bool // release has returned

	*leasePart // nil of a session lock

	// outer is the lock under whose context a nested one was acquired: that lives on
	// its session, at the gate of the outermost.
	outer *Lock // nil if it is not nested
	// aroundShared is the innermost multiplexed lock under whose context this one,
	// which is multiplexed as well, was acquired.
	aroundShared *Lock
	// reentered is the multiplexed lock that this one is a re-entry of.
	reentered *Lock
	// aroundPin is the innermost session lock, or pin, under whose context this
	// one, which is a pin, was taken: its session is another one.
	aroundPin *Lock

	// gate lets one statement at a time onto the session; a transaction has
	// a gate of its own inside.
	gate gate

	gone     Error // see released
	closeErr error
	once     sync.Once // close

	mu    sync.Mutex // guards what follows; no I/O and no callback under it
	state lockState
	early bool    // closing began with the last COMMIT, not with Close
	told  telling // what observers know of it
	err   error   // not nil unless held
	tx    *lockTx
	note  error   // see remark
	ended []*Lock // nested ones that ended with it, of which observers do not know it
}

// lockState is where a lock stands.
type lockState uint8

// The legal transitions:
//
//	held → closing → released
//	held → lost
//	closing → lost   (the session died before the release was confirmed)
const (
	stateHeld lockState = iota
	stateClosing
	stateReleased
	stateLost
)

// to makes a transition and tells whether it was legal. A nil err leaves the one
// that there is.
func (l *Lock) to(next lockState, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state == stateHeld && (next == stateClosing || next == stateLost),
		l.state == stateClosing && (next == stateReleased || next == stateLost):
		l.state = next
		if err != nil {
			l.err = err
		}
		return true
	}
	return false
}

// beginClosing is the transition to closing that Close finds done.
func (l *Lock) beginClosing(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != stateHeld {
		return false
	}
	l.state, l.err, l.early = stateClosing, err, true
	return true
}

func (l *Lock) closingEarly() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == stateClosing && l.early
}

func (l *Lock) now() lockState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Key returns the key as it was given to Acquire.
func (l *Lock) Key() string { return l.key }

// Keys returns the keys that the lock holds.
func (l *Lock) Keys() []string {
	if l.keys == nil {
		return []string{l.key}
	}
	return slices.Clone(l.keys)
}

// Context returns the lock's context, a child of Acquire's ctx. Statements and
// transactions under it, through the *sql.DB or anything built on it, run on
// the lock's session; under a lease's they run as they would without, but a
// transaction cannot commit once the lease has moved on; under a multiplexed lock's
// they run as they would without, and it can. The context ends when ctx does, when
// the lock is lost (its Err and cause then match ErrLost) and when it is closed
// (ErrReleased); Err matches context.Canceled in the last two cases. The end of ctx
// does not release the lock: Close does.
func (l *Lock) Context() context.Context { return &l.ctx }

// Token returns the fencing token of a lease: it is greater than that of anyone
// who had the lease before. Whoever writes to something else than the lease's own
// database sends it along, and the other side refuses a token lower than the
// highest that it has seen. Of AcquireAll it is that of the first of Keys. A
// session lock needs none: 0.
func (l *Lock) Token() int64 {
	if tokens := l.tokens(); len(tokens) > 0 {
		return tokens[0]
	}
	return 0
}

// Tokens returns the fencing tokens of the leases, in the order of Keys; nil for
// a session lock.
func (l *Lock) Tokens() []int64 { return l.tokens() }

// sessionID is the server's id of the lock's session; 0 for a lease.
func (l *Lock) sessionID() int64 {
	if l.sess == nil {
		return 0
	}
	return l.sess.server.SessionID
}

// Err returns nil while the lock is held; afterwards it returns an error that
// matches ErrLost or ErrReleased.
func (l *Lock) Err() error {
	if l.isLease {
		return l.leaseErr()
	}
	l.mu.Lock()
	err := l.err
	l.mu.Unlock()
	if err == nil && l.shared && l.reentry {
		return l.reentered.Err()
	}
	return err
}

// DB returns the lock's session as a *sql.DB that needs no slot of the pool and
// never dials; under a lease, which has no session, it dials connections beside
// the pool. Use it with the lock's Context, or one derived from it: without,
// it fails, and so it does under a multiplexed lock's. It is shared by the locks of
// one *sql.DB and must not be closed.
func (l *Lock) DB() *sql.DB { return l.keeper.sessionDB() }

// Conn returns the lock's session, or for a lease one that is dialled for it, as a
// *sql.Conn for tools that want one: all its statements run on the lock's session,
// whatever context they bear. It needs no slot of the pool. For a multiplexed lock
// it returns ErrUnsupported. The caller must Close it; that does not release the
// lock. While a Raw access is in use the session is not pinged, and that the
// network has fallen silent is told up to a sixth of the TTL after it: close the
// Conn, or run a statement on it, soon after.
func (l *Lock) Conn(ctx context.Context) (*sql.Conn, error) {
	if err := l.Err(); err != nil {
		return nil, err
	}
	if l.shared {
		return nil, fault(l.key, "a multiplexed lock has no session of its own: leave Multiplexed out", ErrUnsupported)
	}
	c, err := l.DB().Conn(ctx)
	if err != nil {
		return nil, err
	}
	err = c.Raw(func(dc any) error {
		ours, err := facade(dc)
		if err == nil {
			ours.bound, ours.handle = l, c
		}
		return err
	})
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// top is the lock whose session and gate l uses: itself, unless it is nested.
func (l *Lock) top() *Lock {
	for l.outer != nil {
		l = l.outer
	}
	return l
}

// within tells whether l is other, or nested in it.
func (l *Lock) within(other *Lock) bool {
	for ; l != nil; l = l.outer {
		if l == other {
			return true
		}
	}
	return false
}

// lost is the session's call when it ends with the lock in its ledger. The
// session has it told.
func (l *Lock) lost(cause error) {
	err := fault(l.key, fmt.Sprintf("session %d, held for %v", l.sess.server.SessionID, time.Since(l.since).Round(time.Millisecond)), ErrLost, cause)
	if !l.to(stateLost, err) {
		return
	}
	if l.outer == nil {
		l.closeGates(err)
	}
	l.ctx.endWith(err)
	l.keeper.vacate(l)
}

// setTx records the open transaction, for closeGates.
func (l *Lock) setTx(tx *lockTx) {
	l.mu.Lock()
	l.tx = tx
	l.mu.Unlock()
}

// check tells whether statements may run under the lock. The caller holds io:
// without it the answer could be stale, since a closed lock's session is
// handed on.
func (l *Lock) check() error { return l.Err() }
