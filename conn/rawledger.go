package conn

import "time"

// rawLedger is what is known of the session locks on a conn's own session.
type rawLedger struct {
	seen   []rawGrant // held by evidence: each grant seen less its release
	unsure bool       // only the server knows
	locks  []string   // those that may be held, by name
	others bool       // locks does not have all that may be held
	owner  int64      // the goroutine that took the first of them
	inTx   bool       // in a transaction
	parked time.Time  // when the session was parked last, if it was
}

// maybe tells whether anything may be held.
func (l *rawLedger) maybe() bool { return l.unsure || len(l.seen) > 0 }

// rawGrant is one grant of a lock. MySQL takes names that differ in case for the
// same, which this need not know: the server is asked then.
type rawGrant struct {
	lock   string
	shared bool
}
