package sqlscan_test

import (
	"regexp"
	"strconv"
	"strings"

	. "github.com/lockdb/lockdb/internal/sqlscan"
)

// The reference is Scan as one would write it without regard to time: a slice
// of tokens for every reading, then patterns over them.

type refReading struct{ single, double, skip bool }

type refToken struct{ kind, text string } // kind: word ident dquote uident string number param mark

var (
	refSpace     = regexp.MustCompile(`^[ \t\n\v\f\r]+`)
	refWord      = regexp.MustCompile(`^[A-Za-z_\x{80}-\x{10FFFF}][A-Za-z0-9_$\x{80}-\x{10FFFF}]*`)
	refDollar    = regexp.MustCompile(`^\$[A-Za-z0-9_$\x{80}-\x{10FFFF}]*`)
	refNumber    = regexp.MustCompile(`^[0-9](?:[A-Za-z0-9_$\x{80}-\x{10FFFF}]|\.[0-9])*`)
	refVariable  = regexp.MustCompile(`^@+[A-Za-z0-9_$.\x{80}-\x{10FFFF}]*`)
	refVersion   = regexp.MustCompile(`^[0-9]{5,6}`)
	refTag       = regexp.MustCompile(`^\$(?:[A-Za-z_\x{80}-\x{10FFFF}][A-Za-z0-9_\x{80}-\x{10FFFF}]*)?\$`)
	refParam     = regexp.MustCompile(`^\$[0-9]+`)
	refDashes    = regexp.MustCompile(`^--(?:[\x00-\x20\x7f]|$)`)
	refEscaped   = map[byte]*regexp.Regexp{'\'': regexp.MustCompile(`(?s)^'(?:[^'\\]|''|\\(?:.|$))*'?`), '"': regexp.MustCompile(`(?s)^"(?:[^"\\]|""|\\(?:.|$))*"?`)}
	refUnescaped = map[byte]*regexp.Regexp{'\'': regexp.MustCompile(`^'(?:[^']|'')*'?`), '"': regexp.MustCompile(`^"(?:[^"]|"")*"?`), '`': regexp.MustCompile("^`(?:[^`]|``)*`?")}
	refDoubt     = map[byte]*regexp.Regexp{'\'': regexp.MustCompile(`[^\\](?:\\\\)*\\'`), '"': regexp.MustCompile(`[^\\](?:\\\\)*\\"`)}
)

func refTokens(d Dialect, sql string, r refReading) (toks []refToken, doubt bool) {
	versioned := false
	rest := sql
	for rest != "" {
		add := func(kind, text string) {
			toks = append(toks, refToken{kind, text})
			rest = rest[len(text):]
		}
		quote := func(q byte, escapes bool) string {
			text := refUnescaped[q].FindString(rest)
			if escapes {
				text = refEscaped[q].FindString(rest)
			}
			return text
		}
		switch q := rest[0]; {
		case refSpace.MatchString(rest):
			rest = rest[len(refSpace.FindString(rest)):]
		case d == MySQL && (q == '#' || refDashes.MatchString(rest)):
			rest = refAfterLine(rest, "\n")
		case d == Postgres && strings.HasPrefix(rest, "--"):
			rest = refAfterLine(rest, "\r\n")
		case d == MySQL && versioned && strings.HasPrefix(rest, "*/"):
			versioned = false
			rest = rest[2:]
		case d == MySQL && (strings.HasPrefix(rest, "/*!") || strings.HasPrefix(rest, "/*M!")):
			doubt = true
			if r.skip {
				rest = refAfterComment(rest, 2)
				continue
			}
			versioned = true
			_, rest, _ = strings.Cut(rest, "!")
			rest = rest[len(refVersion.FindString(rest)):]
		case strings.HasPrefix(rest, "/*"):
			rest = refAfterComment(rest, map[Dialect]int{MySQL: 1, Postgres: 1 << 30}[d])
		case d == Postgres && len(rest) > 1 && strings.EqualFold(rest[:2], "e'"):
			text := refEscaped['\''].FindString(rest[1:])
			add("string", rest[:1+len(text)])
		case d == Postgres && len(rest) > 2 && strings.EqualFold(rest[:3], `u&"`):
			text := refUnescaped['"'].FindString(rest[2:])
			kind := "uident"
			if strings.Contains(text[1:], `""`) {
				kind = "mark"
			}
			add(kind, rest[:2+len(text)])
		case q == '\'':
			text := quote(q, r.single)
			doubt = doubt || refDoubt[q].MatchString(text)
			add("string", text)
		case q == '"' && d == Postgres:
			add("ident", quote(q, false))
		case q == '"':
			text := quote(q, r.double)
			doubt = doubt || refDoubt[q].MatchString(text)
			add("dquote", text)
		case q == '`' && d == MySQL:
			add("ident", quote(q, false))
		case q == '?' && d == MySQL:
			if doubt {
				add("mark", "?")
			} else {
				add("param", "?")
			}
		case d == MySQL && q == '@':
			add("mark", refVariable.FindString(rest))
		case d == MySQL && q == '$':
			add("word", refDollar.FindString(rest))
		case d == Postgres && refParam.MatchString(rest):
			add("param", refParam.FindString(rest))
		case d == Postgres && refTag.MatchString(rest):
			tag := refTag.FindString(rest)
			body := strings.Index(rest[len(tag):], tag)
			if body < 0 {
				add("string", rest)
			} else {
				add("string", rest[:body+2*len(tag)])
			}
		case refWord.MatchString(rest):
			add("word", refWord.FindString(rest))
		case refNumber.MatchString(rest):
			add("number", refNumber.FindString(rest))
		case q >= 0x80: // not UTF-8: the pattern for words does not see it
			panic("the caller gives UTF-8")
		default:
			add("mark", rest[:1])
		}
	}
	return toks, doubt
}

func refAfterLine(s, ends string) string {
	if i := strings.IndexAny(s, ends); i >= 0 {
		return s[i:]
	}
	return ""
}

func refAfterComment(s string, depth int) string {
	open := 1
	for s = s[2:]; s != ""; {
		switch {
		case strings.HasPrefix(s, "*/"):
			s = s[2:]
			if open--; open == 0 {
				return s
			}
		case open < depth && strings.HasPrefix(s, "/*"):
			s = s[2:]
			open++
		default:
			s = s[1:]
		}
	}
	return ""
}

func refName(t refToken) string {
	switch t.kind {
	case "word":
		return strings.ToLower(t.text)
	case "ident", "dquote":
		if len(t.text) >= 2 {
			return strings.ToLower(t.text[1 : len(t.text)-1])
		}
	}
	return ""
}

var refFunctions = map[Dialect]map[string]Verdict{
	MySQL: {"get_lock": MayLock, "release_lock": MayUnlock, "release_all_locks": MayUnlock | DropsAll},
	Postgres: {
		"pg_advisory_lock": MayLock, "pg_advisory_lock_shared": MayLock,
		"pg_try_advisory_lock": MayLock, "pg_try_advisory_lock_shared": MayLock,
		"pg_advisory_unlock": MayUnlock, "pg_advisory_unlock_shared": MayUnlock,
		"pg_advisory_unlock_all": MayUnlock | DropsAll,
	},
}

var (
	refQuery   = regexp.MustCompile(`^(?:select|insert|update|delete|with|replace)$`)
	refUnknown = map[Dialect]*regexp.Regexp{
		MySQL:    regexp.MustCompile(`^(?:call|do|execute|prepare|if|case|loop|while|repeat|for|declare)$`),
		Postgres: regexp.MustCompile(`^(?:call|do|execute|prepare|fetch|move)$`),
	}
	refRuns = map[Dialect]*regexp.Regexp{MySQL: regexp.MustCompile(`^(?:call|execute)$`), Postgres: regexp.MustCompile(`^execute$`)}
)

func refWalk(d Dialect, sql string, r refReading) (v Verdict, doubt bool) {
	toks, doubt := refTokens(d, sql, r)
	// Calls.
	for i, t := range toks {
		if t.text != "(" {
			continue
		}
		if i > 0 {
			v |= refFunctions[d][refName(toks[i-1])]
		}
		if i > 0 && toks[i-1].kind == "uident" ||
			i > 2 && toks[i-3].kind == "uident" && refName(toks[i-2]) == "uescape" && toks[i-2].kind == "word" && toks[i-1].kind == "string" {
			v |= MayLock | Opaque
		}
	}
	return v | refStatements(d, toks), doubt
}

func refStatements(d Dialect, toks []refToken) (v Verdict) {
	for len(toks) > 0 {
		n := 0
		for n < len(toks) && toks[n] != (refToken{"mark", ";"}) {
			n++
		}
		v |= refStatement(d, toks[:n])
		toks = toks[min(n+1, len(toks)):]
	}
	return v
}

func refStatement(d Dialect, toks []refToken) (v Verdict) {
	for len(toks) > 0 && toks[0].text == "(" {
		toks = toks[1:]
	}
	word := func(i int) string {
		if i >= len(toks) || toks[i].kind != "word" {
			return ""
		}
		return strings.ToLower(toks[i].text)
	}
	first := word(0)
	if refQuery.MatchString(first) {
		return 0
	}
	if refUnknown[d].MatchString(first) ||
		d == MySQL && first == "begin" && len(toks) > 1 && word(1) != "work" {
		v |= MayLock | Opaque
	}
	if d == Postgres && first == "discard" && word(1) == "all" {
		v |= MayUnlock | DropsAll
	}
	for i := 1; i < len(toks); i++ {
		if refRuns[d].MatchString(word(i)) && toks[i-1].text != "." {
			v |= MayLock | Opaque
		}
	}
	return v
}

var (
	refPlainMySQL = regexp.MustCompile("^select (" +
		"fn:get_lock mark:\\( (mark:- int|int|text|param) mark:, (mark:- int|mark:- number|int|number|text|param) mark:\\) |" +
		"fn:release_lock mark:\\( (mark:- int|int|text|param) mark:\\) |" +
		"fn:release_all_locks mark:\\( mark:\\) )" +
		"(as (ident|word|as|from|dual|select|discard|all|text|string) |(ident|word|dual|select|discard|all|text|string) )?(from dual )?(mark:; )?$")
	refPlainPostgres = regexp.MustCompile("^select (catalog mark:\\. )?(" +
		"fn:pg_(try_)?advisory_(un)?lock(_shared)? mark:\\( KEY( mark:, KEY)? mark:\\) |" +
		"fn:pg_advisory_unlock_all mark:\\( mark:\\) )" +
		"(as (ident|word|as|from|dual|select|discard|all|cast) |(ident|word|dual|select|discard|all|cast) )?(mark:; )?$")
	refDiscardAll = regexp.MustCompile(`^discard all (mark:; )?$`)
	refKey        = regexp.MustCompile(`(mark:- int|mark:- min|int|textint|param)( mark:: mark:: cast)*`)
	refIsInt      = regexp.MustCompile(`^-?[0-9]+$`)
	refKeyword    = regexp.MustCompile(`^(?:select|as|from|dual|discard|all)$`)
	refCastWord   = regexp.MustCompile(`^(?:bigint|int8|integer|int|int4|smallint|int2)$`)
)

// refIsPlain writes the tokens as a sentence and matches it with a pattern.
func refIsPlain(d Dialect, sql string) bool {
	toks, doubt := refTokens(d, sql, refUsual(d))
	if doubt {
		return false
	}
	var b strings.Builder
	for i, t := range toks {
		_, isFn := refFunctions[d][refName(t)]
		isFn = isFn && i+1 < len(toks) && toks[i+1].text == "("
		lower := strings.ToLower(t.text)
		switch {
		case isFn && refQuotedCapitals(t, d):
			b.WriteString("usersfn")
		case isFn:
			b.WriteString("fn:" + refName(t))
		case refName(t) == "pg_catalog" && !refQuotedCapitals(t, d) && i+1 < len(toks) && toks[i+1].text == ".":
			b.WriteString("catalog")
		case t.kind == "word" && refKeyword.MatchString(lower):
			b.WriteString(lower)
		case t.kind == "word" && d == Postgres && refCastWord.MatchString(lower):
			b.WriteString("cast")
		case t.kind == "ident" && refName(t) == "":
			b.WriteString("emptyident")
		case t.kind == "dquote" && (i+1 < len(toks) && toks[i+1].text == "."):
			b.WriteString("ident")
		case t.kind == "word" || t.kind == "ident":
			b.WriteString(t.kind)
		case t.kind == "number":
			if _, err := strconv.ParseInt(t.text, 10, 64); refIsInt.MatchString(t.text) && err == nil {
				b.WriteString("int")
			} else if _, err := strconv.ParseInt("-"+t.text, 10, 64); refIsInt.MatchString(t.text) && err == nil {
				b.WriteString("min")
			} else {
				b.WriteString("number")
			}
		case t.kind == "string" && d == Postgres:
			inner := strings.TrimSuffix(strings.TrimPrefix(t.text, "'"), "'")
			if _, err := strconv.ParseInt(inner, 10, 64); refIsInt.MatchString(inner) && err == nil && t.text == "'"+inner+"'" {
				b.WriteString("textint")
			} else {
				b.WriteString("string")
			}
		case (t.kind == "string" || t.kind == "dquote") && d == MySQL:
			if len(t.text) >= 2 && !strings.Contains(t.text, `\`) {
				b.WriteString("text")
			} else {
				b.WriteString("string")
			}
		case t.kind == "param" && d == Postgres:
			if n, err := strconv.Atoi(t.text[1:]); err == nil && 1 <= n && n <= 1<<16 {
				b.WriteString("param")
			} else {
				b.WriteString("wrongparam")
			}
		case t.kind == "mark":
			b.WriteString("mark:" + t.text)
		default:
			b.WriteString(t.kind)
		}
		b.WriteString(" ")
	}
	sentence := b.String()
	if d == MySQL {
		return refPlainMySQL.MatchString(strings.ReplaceAll(sentence, "mark:- min", "mark:- int"))
	}
	return refDiscardAll.MatchString(sentence) || refPlainPostgres.MatchString(refKey.ReplaceAllString(sentence, "KEY"))
}

// refQuotedCapitals: PostgreSQL does not fold them.
func refQuotedCapitals(t refToken, d Dialect) bool {
	return d == Postgres && t.kind == "ident" && strings.ContainsFunc(t.text, func(r rune) bool { return 'A' <= r && r <= 'Z' })
}

var refVersioned = regexp.MustCompile(`/\*M?!`)

func refUsual(d Dialect) refReading {
	return refReading{single: d == MySQL, double: d == MySQL}
}

func refScan(d Dialect, sql string) Verdict {
	v, doubt := refWalk(d, sql, refUsual(d))
	if doubt {
		for i := range 8 {
			r := refReading{single: i&1 != 0, double: i&2 != 0, skip: i&4 != 0}
			if d == MySQL && r.double && !r.single || d == Postgres && (!r.single || r.double || r.skip) {
				continue // no server reads so
			}
			if w, _ := refWalk(d, sql, r); w != 0 && r != refUsual(d) {
				v |= MayLock | Opaque
			}
		}
	}
	if doubt && d == MySQL && v == 0 && !Harmless(d, sql) && len(refVersioned.FindAllString(sql, -1)) > 1 && strings.Contains(strings.ToLower(sql), "_lock") {
		v = MayLock | Opaque
	}
	if v != 0 && !refIsPlain(d, sql) {
		v |= Opaque
	}
	return v
}

// refHidden is Hidden as one would write it without regard to time.
func refHidden(d Dialect, sql string) bool {
	toks, doubt := refTokens(d, sql, refUsual(d))
	if doubt {
		return true
	}
	kind := func(i int) string {
		if i < 0 {
			return ""
		}
		return toks[i].kind
	}
	for i, t := range toks {
		escaped := kind(i-1) == "uident" || kind(i-3) == "uident" && kind(i-2) == "word" && refName(toks[i-2]) == "uescape" && kind(i-1) == "string"
		if t.text == "(" && escaped {
			return true
		}
		if t.text != "(" || i == 0 || refFunctions[d][refName(toks[i-1])] == 0 {
			continue
		}
		qualified := i > 1 && toks[i-2].text == "."
		catalog := d == Postgres && i > 2 && refName(toks[i-3]) == "pg_catalog" && !refQuotedCapitals(toks[i-3], d)
		if refQuotedCapitals(toks[i-1], d) || qualified && !catalog {
			return true
		}
	}
	for begins, i := true, 0; i < len(toks); i++ {
		t := &toks[i]
		if d == MySQL && begins && t.kind == "word" && strings.EqualFold(t.text, "do") {
			t.text = "SELECT" // which evaluates expressions, too
		}
		begins = t.text == ";" || begins && t.text == "("
	}
	return refStatements(d, toks).Has(MayLock)
}
