package sqlscan

import "strings"

// Verdict is a set of what a statement may do with session locks; 0 is nothing.
type Verdict uint8

// The members of a Verdict.
const (
	// MayLock: the statement may take a session lock.
	MayLock Verdict = 1 << iota
	// MayUnlock: the statement calls a function that releases a session lock,
	// or drops all. Calls tells which.
	MayUnlock
	// DropsAll: the statement releases every session lock of its connection
	// (RELEASE_ALL_LOCKS, pg_advisory_unlock_all, DISCARD ALL).
	DropsAll
	// Opaque: the statement is not one plain call, so its text and its result
	// do not tell what is held afterwards: the server must be asked. Without
	// it, Plain gives the call, or the statement is DISCARD ALL.
	Opaque
)

// Has reports whether v has any of the members of w.
func (v Verdict) Has(w Verdict) bool { return v&w != 0 }

func (v Verdict) String() string {
	if v == 0 {
		return "nothing"
	}
	var in []string
	for i, name := range []string{"MayLock", "MayUnlock", "DropsAll", "Opaque"} {
		if v.Has(1 << i) {
			in = append(in, name)
		}
	}
	return strings.Join(in, "|")
}
