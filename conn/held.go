package conn

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// HeldLock is a lock that this process holds, waits for, or both, through one
// *sql.DB.
type HeldLock struct {
	// Key is the key as the holder gave it to Acquire, or the first who waits.
	Key string
	// Kind is "session" for a lock that lives on a server session, "lease" for one
	// that is a row of a table, "raw" for one taken in SQL text (see Parked).
	Kind string
	// Session is the server's id of the session that holds the lock
	// (CONNECTION_ID(), pg_backend_pid()); 0 if this process does not hold it, for a
	// lease, and for a lock taken in SQL text.
	Session int64
	// Since is when this process's holder got the lock; zero if this process
	// does not hold it but only waits for it. Of a lock taken in SQL text it is when
	// its connection was last parked, after the holder's last lock statement.
	Since time.Time
	// Waiters is how many calls of this process wait for the lock, or for a
	// session to take it on.
	Waiters int
	// HeldBy says in words who held a lock that this process only waits for
	// when the server was last asked; "" if it has not been, or did not say.
	HeldBy string
	// Token is the fencing token of a lease that this process holds; else 0.
	Token int64
	// Parked: the lock was taken in SQL text on the *sql.DB itself, and its
	// session is out of the pool. Kind is "raw", and Key what the text calls it.
	Parked bool
}

// The Kinds.
const (
	kindSession = "session"
	kindLease   = "lease"
	kindRaw     = "raw"
)

// Held returns the locks that this process holds or waits for, by key: one for
// each key, those of AcquireAll and of nested locks included; a re-entry is the
// same lock. A lock that is being released is held until the server, or the
// next in the queue, has it. It asks no server, and stops the keeper for as long
// as it takes to copy the list.
func (k *Keeper) Held() []HeldLock {
	found := make(map[dialect.Name]*HeldLock)
	k.mu.Lock()
	for s := range k.sessions {
		s.mu.Lock()
		for _, l := range s.locks {
			if found[l.name] == nil && !l.bare { // else a re-entry
				found[l.name] = &HeldLock{Key: l.key, Kind: kindSession, Session: s.server.SessionID, Since: l.since}
			}
		}
		s.mu.Unlock()
	}
	for name, r := range k.rooms {
		if r.first != nil {
			h := awaited(found, name, r.first.key)
			h.Waiters += r.waiting
			if h.Since.IsZero() {
				h.HeldBy = r.seen
			}
		}
	}
	for w, name := range k.nesting {
		awaited(found, name, w.key).Waiters++
	}
	for _, order := range k.queue {
		if o := order.outcome; o != nil {
			awaited(found, order.name, o.key).Waiters++
		}
	}
	k.mu.Unlock()
	held := append(k.heldLeases(), k.heldParked()...)
	for _, h := range found {
		held = append(held, *h)
	}
	slices.SortStableFunc(held, func(a, b HeldLock) int { return cmp.Compare(a.Key, b.Key) })
	return held
}

// awaited is what was found of a lock that someone waits for, under that key.
func awaited(found map[dialect.Name]*HeldLock, name dialect.Name, key string) *HeldLock {
	h := found[name]
	if h == nil {
		h = &HeldLock{Key: key, Kind: kindSession}
		found[name] = h
	}
	return h
}
