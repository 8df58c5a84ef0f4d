package sqlscan

// Scan tells what sql may do with session locks. It allocates nothing.
func Scan(d Dialect, sql string) Verdict {
	if harmless(d, sql) {
		return 0
	}
	v, doubt := walk(d, sql, usual(d))
	if doubt {
		for _, r := range others(d) {
			if w, _ := walk(d, sql, r); w != 0 {
				v |= MayLock | Opaque
			}
		}
		if d == MySQL && v == 0 && severalVersioned(sql) && mentionsLock(sql) {
			v = MayLock | Opaque
		}
	}
	if v != 0 && !v.Has(Opaque) && !isPlain(d, sql) {
		v |= Opaque
	}
	return v
}

// walk looks at every token of a text under one reading. doubt: there are
// others.
func walk(d Dialect, sql string, r reading) (v Verdict, doubt bool) {
	lex := newLexer(d, sql, r)
	var s statement
	for {
		t := lex.next()
		v |= s.step(d, sql, t)
		if t.kind == end {
			return v, lex.doubt
		}
	}
}

// statement is what must be remembered of the tokens before.
type statement struct {
	opening opening
	begun   bool  // the first word has been seen
	second  bool  // the next token is the one after the first word
	last    token // the token before; its kind is end at the beginning
	escaped uint8 // tokens since a U&"…": 1 itself, 2 UESCAPE, 3 the escape
}

func (s *statement) step(d Dialect, sql string, t token) (v Verdict) {
	if t.isMark(sql, '(') {
		v = s.call(d, sql)
	}
	return v | s.hides(d, sql, t)
}

// hides is step without the calls that stand in the text.
func (s *statement) hides(d Dialect, sql string, t token) (v Verdict) {
	switch {
	case t.isMark(sql, ';'):
		*s = statement{last: t}
		return 0
	case !s.begun:
		v = s.first(d, sql, t)
	default:
		v = s.further(d, sql, t)
	}
	s.escape(sql, t)
	s.last = t
	return v
}

// Hidden tells whether sql may take session locks by other calls than those that
// Calls yields: in a procedure, in a user's function that is called as a lock
// function is, or as code only in another reading.
func Hidden(d Dialect, sql string) bool {
	lex := newLexer(d, sql, usual(d))
	var s statement
	var before [3]token // t
	for {
		t := lex.next()
		if fn, _ := function(d, before[2].name(sql)); fn != 0 && t.isMark(sql, '(') && usersOwn(d, sql, before[0], before[1], before[2]) {
			return true
		}
		before = [3]token{before[1], before[2], t}
		if d == MySQL && !s.begun && t.isWord(sql, "do") { // it evaluates expressions, as SELECT does
			s.begun, s.opening, s.last = true, query, t
			continue
		}
		if t.isMark(sql, '(') && (s.escaped == 1 || s.escaped == 3) { // of a name that the text does not show
			return true
		}
		if s.hides(d, sql, t).Has(MayLock) {
			return true
		}
		if t.kind == end {
			return lex.doubt
		}
	}
}

func (s *statement) first(d Dialect, sql string, t token) Verdict {
	if t.isMark(sql, '(') {
		return 0
	}
	s.begun = true
	if t.kind != word {
		s.opening = other
		return 0
	}
	s.opening = open(d, sql[t.from:t.to])
	s.second = true
	if s.opening == unknown {
		return MayLock | Opaque
	}
	return 0
}

func (s *statement) further(d Dialect, sql string, t token) Verdict {
	second := s.second
	s.second = false
	switch s.opening {
	case beginner:
		if second && t.kind != end && !t.isWord(sql, "work") {
			return MayLock | Opaque
		}
	case discards:
		if second && t.isWord(sql, "all") {
			return MayUnlock | DropsAll
		}
	}
	if s.opening != query && t.kind == word && !s.last.isMark(sql, '.') && runsAnother(d, sql[t.from:t.to]) {
		return MayLock | Opaque
	}
	return 0
}

// call looks at what stands before a parenthesis.
func (s *statement) call(d Dialect, sql string) Verdict {
	if s.escaped == 1 || s.escaped == 3 {
		return MayLock | Opaque
	}
	fn, _ := function(d, s.last.name(sql))
	return fn.verdict()
}

func (s *statement) escape(sql string, t token) {
	switch {
	case t.kind == uquoted:
		s.escaped = 1
	case s.escaped == 1 && t.isWord(sql, "uescape"):
		s.escaped = 2
	case s.escaped == 2 && t.kind == text:
		s.escaped = 3
	default:
		s.escaped = 0
	}
}
