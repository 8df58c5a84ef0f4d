package sqlscan

type kind uint8

const (
	end     kind = iota
	word         // an unquoted identifier or keyword
	quoted       // `…`, or "…" in PostgreSQL
	double       // "…" in MySQL: a string, or an identifier under ANSI_QUOTES
	uquoted      // PostgreSQL's U&"…"
	text         // any other string
	number       // begins with a digit
	param        // ? or $1
	mark         // any other byte, or a MySQL variable
)

// token is a piece of the text, at sql[from:to].
type token struct {
	kind     kind
	from, to int
	n        int // of a param: its number, from 1; 0 if it cannot be known
}

func (t token) isMark(sql string, b byte) bool {
	return t.kind == mark && t.to-t.from == 1 && sql[t.from] == b
}

func (t token) isWord(sql, lower string) bool {
	return t.kind == word && folds(sql[t.from:t.to], lower)
}

// name is what a function of this name is called, "" if t is no name.
func (t token) name(sql string) string {
	switch t.kind {
	case word:
		return sql[t.from:t.to]
	case quoted, double:
		if t.to-t.from >= 2 {
			return sql[t.from+1 : t.to-1]
		}
	}
	return ""
}
