package sqlscan

import "strings"

// harmless reports whether sql cannot touch a lock under any reading, by what
// costs little: it is one statement that can do so only by calling a function,
// and before none of its parentheses stands what could end the name of one.
// It looks at bytes without knowing strings from code, so it errs to the side
// of false.
func harmless(d Dialect, sql string) bool {
	at, ok := leadingBlank(d, sql)
	if !ok {
		return false
	}
	const longest = len("replace")
	stop := at
	for stop < len(sql) && stop-at <= longest && class[sql[stop]]&identPart != 0 {
		stop++
	}
	if !isQuery(sql[at:stop]) {
		return false
	}
	if semicolon := strings.IndexByte(sql[stop:], ';'); semicolon >= 0 && !blank(sql[stop+semicolon+1:]) {
		return false
	}
	for at = stop; ; at++ {
		n := strings.IndexByte(sql[at:], '(')
		if n < 0 {
			return true
		}
		at += n
		if mayEndCall(d, sql, at) {
			return false
		}
	}
}

// leadingBlank is where the text begins after white space and plain comments;
// many programs put the name of a query there.
func leadingBlank(d Dialect, sql string) (at int, ok bool) {
	for at < len(sql) {
		b := sql[at]
		if class[b]&space != 0 {
			at++
			continue
		}
		if b != '-' && b != '/' {
			break
		}
		lex := lexer{d: d, sql: sql, at: at}
		lex.skipBlank()
		if lex.at == at || lex.doubt {
			return at, false
		}
		at = lex.at
	}
	return at, true
}

func blank(s string) bool {
	for i := range len(s) {
		if class[s[i]]&space == 0 {
			return false
		}
	}
	return true
}

// mayEndCall reports whether what stands before the parenthesis at sql[at] may
// be the end of a lock function's name, or may hide it.
func mayEndCall(d Dialect, sql string, at int) bool {
	at--
	for at >= 0 && class[sql[at]]&space != 0 {
		if endsLine(d, sql[at]) && mayEndLineComment(d, sql[:at]) {
			return true
		}
		at--
	}
	if at < 1 {
		return false
	}
	switch b := sql[at]; b {
	case '/', '!', '\'': // a comment, a versioned one, UESCAPE '…'
		return true
	case '"':
		return mayEndName(sql[:at]) || d == Postgres && mayEndEscaped(sql[:at])
	case '`':
		return mayEndName(sql[:at])
	default:
		if class[b]&digit != 0 {
			return followsSign(sql, at)
		}
		return mayEndName(sql[:at+1])
	}
}

// mayEndName: the names end in "lock", "locks", "shared" and "unlock_all".
func mayEndName(s string) bool {
	if len(s) < 2 {
		return false
	}
	a := s[len(s)-2] | 0x20
	switch s[len(s)-1] | 0x20 {
	case 'k':
		return a == 'c'
	case 's':
		return a == 'k'
	case 'd':
		return a == 'e'
	case 'l':
		return a == 'l'
	}
	return false
}

// mayEndEscaped reports whether the quote behind s may end a U&"…", whose last
// character need not be that of the name. The names hold no quotes.
func mayEndEscaped(s string) bool {
	opens := strings.LastIndexByte(s, '"')
	return opens > 0 && s[opens-1] == '&'
}

// mayEndLineComment reports whether the last line of s may hold a comment. It
// does not look further back, which keeps a long text's cost linear.
func mayEndLineComment(d Dialect, s string) bool {
	for at := len(s) - 1; at >= 0 && !endsLine(d, s[at]); at-- {
		switch s[at] {
		case '-':
			if at > 0 && s[at-1] == '-' {
				return true
			}
		case '#':
			if d == MySQL {
				return true
			}
		}
	}
	return false
}

// followsSign reports whether the digits that end at sql[at] are the version of
// a versioned comment.
func followsSign(sql string, at int) bool {
	for at > 0 && class[sql[at]]&digit != 0 {
		at--
	}
	return sql[at] == '!'
}
