package sqlscan

import (
	"math"
	"strings"
)

// OperandKind says how an argument of a lock function is written.
type OperandKind uint8

// The kinds of operands.
const (
	Expr OperandKind = iota // anything whose value the text does not tell
	Text                    // a string literal (MySQL)
	Int                     // an integer: 42, -42; in PostgreSQL also '42' and 42::bigint
	Arg                     // a placeholder
)

// Operand is an argument of a lock function.
type Operand struct {
	Kind OperandKind
	Text string // of a Text: its value
	Int  int64  // of an Int: its value
	Arg  int    // of an Arg: its number, from 1
}

// shape is an operand before its value is taken, which may allocate.
type shape struct {
	kind OperandKind
	tok  token
	neg  bool
}

// list is what stands between the parentheses of a call.
type list struct {
	shapes [2]shape // the first two of n
	n      int
	closed bool
}

// operands reads the arguments of a call; lex stands behind the parenthesis.
func (l *lexer) operands() (args list) {
	var toks [8]token // a literal with casts has at most as many
	n, depth := 0, 0
	add := func() {
		if n <= len(toks) && args.n < len(args.shapes) {
			args.shapes[args.n] = l.shape(toks[:n])
		}
		args.n++
		n = 0
	}
	for {
		t := l.next()
		switch {
		case t.kind == end:
			return args
		case depth == 0 && t.isMark(l.sql, ','):
			add()
			continue
		case depth == 0 && t.isMark(l.sql, ')'):
			if n > 0 || args.n > 0 {
				add()
			}
			args.closed = true
			return args
		case t.isMark(l.sql, '('), t.isMark(l.sql, '['):
			depth++
		case t.isMark(l.sql, ')'), t.isMark(l.sql, ']'):
			depth--
		}
		if n < len(toks) {
			toks[n] = t
		}
		n++
	}
}

func (l *lexer) shape(toks []token) (s shape) {
	if l.d == Postgres {
		toks = l.dropCasts(toks)
	}
	if len(toks) == 2 && toks[0].isMark(l.sql, '-') && toks[1].kind == number {
		s.neg = true
		toks = toks[1:]
	}
	if len(toks) != 1 {
		return shape{}
	}
	s.tok = toks[0]
	switch s.tok.kind {
	case number:
		if _, ok := l.integer(s); ok {
			s.kind = Int
		}
	case param:
		if s.tok.n > 0 {
			s.kind = Arg
		}
	case text, double:
		if l.d == Postgres {
			if _, ok := l.integer(s); ok {
				s.kind = Int
			}
		} else if s.tok.to-s.tok.from >= 2 && strings.IndexByte(l.sql[s.tok.from:s.tok.to], '\\') < 0 {
			s.kind = Text
		}
	}
	return s
}

// dropCasts takes ::bigint and the like off the end. Other casts may change
// the value.
func (l *lexer) dropCasts(toks []token) []token {
	for n := len(toks); n >= 4; n = len(toks) {
		t := toks[n-1]
		if !toks[n-3].isMark(l.sql, ':') || !toks[n-2].isMark(l.sql, ':') || t.kind != word ||
			!anyFolds(l.sql[t.from:t.to], "bigint", "int8", "integer", "int", "int4", "smallint", "int2") {
			break
		}
		toks = toks[:n-3]
	}
	return toks
}

// integer is the value of a number, or of a PostgreSQL string that is one.
func (l *lexer) integer(s shape) (int64, bool) {
	digits := l.sql[s.tok.from:s.tok.to]
	if s.tok.kind == text {
		if len(digits) < 3 || digits[0] != '\'' || digits[len(digits)-1] != '\'' {
			return 0, false
		}
		digits = digits[1 : len(digits)-1]
		if digits[0] == '-' {
			s.neg, digits = true, digits[1:]
		}
	}
	return parseInt(digits, s.neg)
}

// parseInt is strconv.ParseInt without an error to allocate.
func parseInt(digits string, neg bool) (int64, bool) {
	if digits == "" {
		return 0, false
	}
	var n uint64
	for i := range len(digits) {
		if class[digits[i]]&digit == 0 || n > math.MaxInt64/10 {
			return 0, false
		}
		n = n*10 + uint64(digits[i]-'0')
	}
	switch {
	case neg && n <= 1<<63:
		return int64(-n), true
	case !neg && n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}

// operand takes the value.
func (l *lexer) operand(s shape) Operand {
	o := Operand{Kind: s.kind}
	switch s.kind {
	case Int:
		o.Int, _ = l.integer(s)
	case Arg:
		o.Arg = s.tok.n
	case Text:
		q := l.sql[s.tok.from : s.tok.from+1]
		o.Text = strings.ReplaceAll(l.sql[s.tok.from+1:s.tok.to-1], q+q, q)
	}
	return o
}
