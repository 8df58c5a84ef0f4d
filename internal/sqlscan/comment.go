package sqlscan

import "strings"

// skipBlank goes past white space and comments, and past the signs around the
// content of versioned comments, which is code unless the reading skips it.
func (l *lexer) skipBlank() {
	for l.at < len(l.sql) {
		b := l.sql[l.at]
		switch {
		case class[b]&space != 0:
			l.at++
		case b == '-' && l.peek(1) == '-' && (l.d == Postgres || l.endsDashes()):
			l.skipLine()
		case b == '#' && l.d == MySQL:
			l.skipLine()
		case b == '/' && l.peek(1) == '*':
			l.skipBlock()
		case b == '*' && l.versioned && l.peek(1) == '/':
			l.versioned = false
			l.at += 2
		default:
			return
		}
	}
}

// endsDashes: in MySQL "--" begins a comment only before white space, a control
// character or the end, so that 5--1 is 6.
func (l *lexer) endsDashes() bool {
	b := l.peek(2)
	return b <= ' ' || b == 0x7f
}

func (l *lexer) skipLine() {
	for l.at < len(l.sql) && !endsLine(l.d, l.sql[l.at]) {
		l.at++
	}
}

// endsLine: in MySQL a carriage return does not end a comment.
func endsLine(d Dialect, b byte) bool {
	return b == '\n' || b == '\r' && d == Postgres
}

func (l *lexer) skipBlock() {
	if l.d == Postgres {
		l.skipNested(1 << 30)
		return
	}
	sign := 0
	if l.peek(2) == '!' {
		sign = len("/*!")
	} else if l.peek(2) == 'M' && l.peek(3) == '!' {
		sign = len("/*M!")
	}
	if sign == 0 {
		l.skipNested(1)
		return
	}
	l.doubt = true
	if l.read.skip {
		l.skipNested(2)
		return
	}
	l.versioned = true
	l.at += sign
	digits := 0
	for digits < 6 && class[l.peek(digits)]&digit != 0 {
		digits++
	}
	if digits >= 5 {
		l.at += digits
	}
}

// skipNested goes past the comment at l.at, in which comments nest up to depth.
func (l *lexer) skipNested(depth int) {
	if depth == 1 {
		if n := strings.Index(l.sql[l.at+2:], "*/"); n >= 0 {
			l.at += 2 + n + 2
		} else {
			l.at = len(l.sql)
		}
		return
	}
	open := 0
	for l.at < len(l.sql) {
		switch {
		case l.sql[l.at] == '*' && l.peek(1) == '/':
			l.at += 2
			if open--; open == 0 {
				return
			}
		case open < depth && l.sql[l.at] == '/' && l.peek(1) == '*':
			l.at += 2
			open++
		default:
			l.at++
		}
	}
}

// severalVersioned tells whether there is more than one versioned comment in the
// text. Servers may run some and skip the others, so that the readings are many.
func severalVersioned(sql string) bool {
	return strings.Count(sql, "/*!")+strings.Count(sql, "/*M!") > 1
}

// mentionsLock tells whether a part of the names of MySQL's lock functions occurs
// anywhere in the text.
func mentionsLock(sql string) bool {
	const part = "_lock"
	for at := 0; ; at++ {
		n := strings.IndexByte(sql[at:], '_')
		if n < 0 {
			return false
		}
		at += n
		if len(sql)-at >= len(part) && folds(sql[at:at+len(part)], part) {
			return true
		}
	}
}
