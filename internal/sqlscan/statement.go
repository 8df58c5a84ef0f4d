package sqlscan

// opening is what the first word of a statement says of the rest.
type opening uint8

const (
	other    opening = iota // may hold another statement (EXPLAIN, CREATE, SET STATEMENT … FOR)
	query                   // touches locks by calling functions only
	unknown                 // runs what the text does not show
	beginner                // MySQL's BEGIN: a transaction, or a compound statement
	discards                // PostgreSQL's DISCARD
)

func open(d Dialect, word string) opening {
	if isQuery(word) {
		return query
	}
	if anyFolds(word, "call", "do", "execute", "prepare") {
		return unknown
	}
	if d == Postgres {
		switch {
		case anyFolds(word, "fetch", "move"):
			return unknown
		case folds(word, "discard"):
			return discards
		}
		return other
	}
	switch {
	case folds(word, "begin"):
		return beginner
	case anyFolds(word, "if", "case", "loop", "while", "repeat", "for", "declare"):
		return unknown
	}
	return other
}

func isQuery(word string) bool {
	if word == "" {
		return false
	}
	switch word[0] | 0x20 {
	case 's':
		return folds(word, "select")
	case 'i':
		return folds(word, "insert")
	case 'u':
		return folds(word, "update")
	case 'd':
		return folds(word, "delete")
	case 'w':
		return folds(word, "with")
	case 'r':
		return folds(word, "replace")
	}
	return false
}

// runsAnother reports whether word, somewhere in a statement whose opening is
// other, begins a statement that the text does not show. CALL is reserved in
// MySQL; in PostgreSQL it may be a column, and is no part of another statement.
func runsAnother(d Dialect, word string) bool {
	return folds(word, "execute") || d == MySQL && folds(word, "call")
}

func anyFolds(s string, lower ...string) bool {
	for _, l := range lower {
		if folds(s, l) {
			return true
		}
	}
	return false
}
