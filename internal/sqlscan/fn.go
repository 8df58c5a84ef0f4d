package sqlscan

// Fn is what a lock function does.
type Fn uint8

// The kinds of lock functions.
const (
	Lock      Fn = iota + 1 // waits for a lock: GET_LOCK, pg_advisory_lock, pg_advisory_lock_shared
	TryLock                 // takes a lock if it is free: pg_try_advisory_lock, …_shared
	Unlock                  // releases one lock once: RELEASE_LOCK, pg_advisory_unlock, …_shared
	UnlockAll               // releases all: RELEASE_ALL_LOCKS, pg_advisory_unlock_all
)

func (f Fn) verdict() Verdict {
	switch f {
	case Lock, TryLock:
		return MayLock
	case Unlock:
		return MayUnlock
	case UnlockAll:
		return MayUnlock | DropsAll
	}
	return 0
}

// function looks up a name. Quoted identifiers come without their quotes and
// are folded too, though PostgreSQL would not: no server has another function
// of such a name, and a user's own deserves the doubt.
func function(d Dialect, name string) (fn Fn, shared bool) {
	if d == MySQL {
		switch {
		case folds(name, "get_lock"):
			return Lock, false
		case folds(name, "release_lock"):
			return Unlock, false
		case folds(name, "release_all_locks"):
			return UnlockAll, false
		}
		return 0, false
	}
	switch {
	case folds(name, "pg_advisory_lock"):
		return Lock, false
	case folds(name, "pg_advisory_lock_shared"):
		return Lock, true
	case folds(name, "pg_try_advisory_lock"):
		return TryLock, false
	case folds(name, "pg_try_advisory_lock_shared"):
		return TryLock, true
	case folds(name, "pg_advisory_unlock"):
		return Unlock, false
	case folds(name, "pg_advisory_unlock_shared"):
		return Unlock, true
	case folds(name, "pg_advisory_unlock_all"):
		return UnlockAll, false
	}
	return 0, false
}

// usersOwn reports whether a call that is written so is of a user's function with
// the name of a lock function: in a schema, other than PostgreSQL's own, or with
// capitals in quotes, which PostgreSQL does not fold. What it takes or answers
// nobody knows.
func usersOwn(d Dialect, sql string, schema, dot, name token) bool {
	if d == Postgres && name.kind == quoted && hasUpper(name.name(sql)) {
		return true
	}
	if !dot.isMark(sql, '.') {
		return false
	}
	catalog := d == Postgres && folds(schema.name(sql), "pg_catalog") && (schema.kind == word || !hasUpper(schema.name(sql)))
	return !catalog
}

func hasUpper(s string) bool {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return true
		}
	}
	return false
}
