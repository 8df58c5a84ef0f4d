package conn

import (
	"sync/atomic"
	"time"
)

// Statistics are counters and gauges of the locks of one *sql.DB in this
// process. They are read one after the other, not at one instant; of what has
// ended before the call they are exact, and LocksHeld is never negative. Locks taken
// in SQL text are not counted: Held lists those that are parked.
type Statistics struct {
	SessionsOpen int // lock sessions that are open; the connections of leases are not counted
	SessionsIdle int // of these, kept for the next lock
	LocksHeld    int // locks that callers have: Acquired - Released - Lost
	Waiters      int // calls that wait for a lock

	// The following only grow. They count what EventKind of the same name tells.
	SessionsDialled int64         // lock sessions opened so far
	Acquired        int64         // calls that brought a lock
	Refused         int64         // calls that did not
	Waited          int64         // calls that had to wait
	WaitTime        time.Duration // how long these took, those that have ended
	Released        int64         // locks released
	Lost            int64         // locks lost
	HandedOn        int64         // releases that gave the lock to the next in this process
}

// counters are what Statistics is made of and no mutex guards.
type counters struct {
	waiting                                                                atomic.Int64
	dialled, acquired, refused, waited, waitTime, released, lost, handedOn atomic.Int64
}

// Stats returns the keeper's statistics. It costs some loads and a mutex for a
// moment.
func (k *Keeper) Stats() Statistics {
	c := &k.count
	st := Statistics{Released: c.released.Load(), Lost: c.lost.Load()}
	st.Acquired = c.acquired.Load() // after the ends, which it thus includes
	st.LocksHeld = int(st.Acquired - st.Released - st.Lost)
	st.Waiters = int(c.waiting.Load())
	st.Refused, st.Waited, st.HandedOn = c.refused.Load(), c.waited.Load(), c.handedOn.Load()
	st.WaitTime = time.Duration(c.waitTime.Load())
	st.SessionsDialled = c.dialled.Load()
	k.mu.Lock()
	st.SessionsOpen, st.SessionsIdle = len(k.sessions), len(k.idle)
	k.mu.Unlock()
	return st
}
