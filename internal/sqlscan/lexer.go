package sqlscan

import "strings"

// lexer cuts a text into tokens, as the server of its dialect would under its
// reading. What is cut short by the end of the text extends to it: the server
// answers that with a syntax error.
type lexer struct {
	sql  string
	at   int
	d    Dialect
	read reading

	versioned bool // inside a versioned comment
	doubt     bool // another reading would have read the text up to here otherwise
	params    int  // MySQL's ? so far
}

func newLexer(d Dialect, sql string, r reading) lexer {
	return lexer{sql: sql, d: d, read: r}
}

func (l *lexer) next() token {
	l.skipBlank()
	from := l.at
	if from >= len(l.sql) {
		return token{kind: end, from: from, to: from}
	}
	b := l.sql[from]
	switch c := class[b]; {
	case c&identStart != 0:
		return l.word()
	case c&digit != 0:
		l.number()
		return l.token(number, from)
	}
	switch b {
	case '\'':
		l.quote('\'', l.read.single, true)
		return l.token(text, from)
	case '"':
		if l.d == Postgres {
			l.quote('"', false, false)
			return l.token(quoted, from)
		}
		l.quote('"', l.read.double, true)
		return l.token(double, from)
	case '`':
		if l.d == MySQL {
			l.quote('`', false, false)
			return l.token(quoted, from)
		}
	case '?':
		if l.d == MySQL {
			return l.question()
		}
	case '$':
		return l.dollar()
	case '@':
		if l.d == MySQL {
			return l.variable()
		}
	}
	l.at++
	return l.token(mark, from)
}

func (l *lexer) token(k kind, from int) token {
	return token{kind: k, from: from, to: l.at}
}

// peek is the byte at at+n, 0 after the end.
func (l *lexer) peek(n int) byte {
	if l.at+n < len(l.sql) {
		return l.sql[l.at+n]
	}
	return 0
}

func (l *lexer) word() token {
	from := l.at
	for l.at < len(l.sql) && class[l.sql[l.at]]&identPart != 0 {
		l.at++
	}
	if l.d == Postgres && l.at-from == 1 {
		switch l.sql[from] | 0x20 {
		case 'e':
			if l.peek(0) == '\'' {
				l.quote('\'', true, false)
				return l.token(text, from)
			}
		case 'u':
			if l.peek(0) == '&' && l.peek(1) == '"' {
				l.at++
				l.quote('"', false, false)
				if strings.Contains(l.sql[from+3:l.at], `""`) {
					return l.token(mark, from) // no name that matters holds a quote
				}
				return l.token(uquoted, from)
			}
		}
	}
	return l.token(word, from)
}

func (l *lexer) number() {
	for l.at < len(l.sql) {
		if class[l.sql[l.at]]&identPart == 0 && (l.sql[l.at] != '.' || class[l.peek(1)]&digit == 0) {
			return
		}
		l.at++
	}
}

// quote goes past the quote at l.at and its end. doubts: whether a backslash
// escapes here depends on the server's settings.
func (l *lexer) quote(q byte, escapes, doubts bool) {
	l.at++
	for l.at < len(l.sql) {
		b := l.sql[l.at]
		l.at++
		switch {
		case b == q:
			if l.peek(0) != q {
				return
			}
			l.at++
		case b == '\\' && (escapes || doubts):
			b = l.peek(0)
			if doubts && b == q {
				l.doubt = true
			}
			if escapes || b == '\\' {
				l.at = min(l.at+1, len(l.sql))
			}
		}
	}
}

func (l *lexer) question() token {
	t := token{kind: param, from: l.at, to: l.at + 1}
	l.at++
	l.params++
	if !l.doubt {
		t.n = l.params
	}
	return t
}

// dollar reads $1, and the dollar quotes of PostgreSQL. MySQL has no parameters
// of that form, and begins identifiers with $.
func (l *lexer) dollar() token {
	from := l.at
	if l.d == MySQL {
		return l.word()
	}
	l.at++
	if class[l.peek(0)]&digit != 0 {
		for class[l.peek(0)]&digit != 0 {
			l.at++
		}
		t := l.token(param, from)
		if n, ok := parseInt(l.sql[from+1:l.at], false); ok && n <= 1<<16 {
			t.n = int(n)
		}
		return t
	}
	for tag := l.at; ; tag++ {
		if tag >= len(l.sql) {
			break
		}
		if b := l.sql[tag]; b == '$' {
			delimiter := l.sql[from : tag+1]
			if body := strings.Index(l.sql[tag+1:], delimiter); body >= 0 {
				l.at = tag + 1 + body + len(delimiter)
			} else {
				l.at = len(l.sql)
			}
			return l.token(text, from)
		} else if class[b]&identPart == 0 {
			break
		}
	}
	return l.token(mark, from)
}

// variable goes past @name and @@scope.name as one, so that a variable called
// @call is not taken for the word.
func (l *lexer) variable() token {
	from := l.at
	for l.peek(0) == '@' {
		l.at++
	}
	for l.at < len(l.sql) && (class[l.sql[l.at]]&identPart != 0 || l.sql[l.at] == '.') {
		l.at++
	}
	return l.token(mark, from)
}
