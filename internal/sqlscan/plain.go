package sqlscan

// Plain returns the call of a text that is one plain call, so that the text and
// the first column of its one row tell all:
//
//	SELECT [pg_catalog.]function(arguments) [[AS] alias] [FROM DUAL] [;]
//
// with literals or placeholders for arguments, and nothing that other settings
// of the server would read otherwise. A function in another schema is a user's.
func Plain(d Dialect, sql string) (Call, bool) {
	lex := newLexer(d, sql, usual(d))
	p, ok := lex.plain()
	if !ok {
		return Call{}, false
	}
	return lex.call(p.fn, p.shared, p.args), true
}

// Answer returns the function of a text of MySQL's that is one plain call but for
// its arguments, which may be any expressions that call no other lock function: the
// first column of its one row tells what became of the lock, if not which it is.
func Answer(sql string) (Fn, bool) {
	lex := newLexer(MySQL, sql, usual(MySQL))
	p, ok := lex.selects()
	if !ok || p.args.n != arity(p.fn) {
		return 0, false
	}
	n := 0
	for range Calls(MySQL, sql) {
		n++
	}
	return p.fn, n == 1
}

type plainCall struct {
	fn     Fn
	shared bool
	args   list
}

// isPlain also takes DISCARD ALL, which has no call but leaves no question.
func isPlain(d Dialect, sql string) bool {
	lex := newLexer(d, sql, usual(d))
	if _, ok := lex.plain(); ok {
		return true
	}
	lex = newLexer(d, sql, usual(d))
	return d == Postgres && lex.next().isWord(sql, "discard") && lex.next().isWord(sql, "all") && lex.ends(lex.next())
}

func (l *lexer) plain() (p plainCall, ok bool) {
	p, ok = l.selects()
	return p, ok && p.simple(l.d)
}

// selects is plain with any arguments.
func (l *lexer) selects() (p plainCall, ok bool) {
	if !l.next().isWord(l.sql, "select") {
		return p, false
	}
	var schema, dot token
	name := l.next()
	t := l.next()
	if t.isMark(l.sql, '.') {
		schema, dot = name, t
		name = l.next()
		t = l.next()
	}
	p.fn, p.shared = function(l.d, name.name(l.sql))
	if p.fn == 0 || !t.isMark(l.sql, '(') || usersOwn(l.d, l.sql, schema, dot, name) {
		return p, false
	}
	p.args = l.operands()
	if !p.args.closed {
		return p, false
	}
	t = l.next()
	switch {
	case t.isWord(l.sql, "as"):
		if t = l.next(); !l.isAlias(t) {
			return p, false
		}
		t = l.next()
	case l.isAlias(t) && !t.isWord(l.sql, "from"):
		t = l.next()
	}
	if l.d == MySQL && t.isWord(l.sql, "from") {
		if !l.next().isWord(l.sql, "dual") {
			return p, false
		}
		t = l.next()
	}
	return p, l.ends(t)
}

// simple reports whether the server has the function with as many arguments,
// and those that name the lock are literals or placeholders.
func (p *plainCall) simple(d Dialect) bool {
	keys := p.args.n
	switch {
	case d == MySQL && p.args.n != arity(p.fn):
		return false
	case d == MySQL && p.fn == Lock:
		keys = 1
		if timeout := p.args.shapes[1]; timeout.kind == Expr && timeout.tok.kind != number {
			return false
		}
	case d == Postgres && (p.fn == UnlockAll) != (p.args.n == 0), p.args.n > 2:
		return false
	}
	for _, s := range p.args.shapes[:keys] {
		if s.kind == Expr {
			return false
		}
	}
	return true
}

// isAlias also takes the words that cannot be one: the server refuses them.
func (l *lexer) isAlias(t token) bool {
	switch t.kind {
	case word, quoted, double:
		return true
	case text:
		return l.d == MySQL
	}
	return false
}

// ends reports whether t, or a semicolon and then nothing, ends the text, and
// whether all of it was read without doubt.
func (l *lexer) ends(t token) bool {
	if t.isMark(l.sql, ';') {
		t = l.next()
	}
	return t.kind == end && !l.doubt
}
