package sqlscan

import "iter"

// Call is one call of a lock function in a text.
type Call struct {
	Fn     Fn
	Shared bool // a shared lock of PostgreSQL
	// N is how many of Keys name the lock: 1, or 2 for PostgreSQL's pair of
	// int4, which is a key space of its own. It is 0 where none does
	// (UnlockAll), or where the server would refuse the number of arguments.
	N    int
	Keys [2]Operand
}

// Calls yields the calls of lock functions in sql as it is usually read, outer
// before inner. It may allocate: it is for texts on which Scan has found MayLock
// or MayUnlock.
func Calls(d Dialect, sql string) iter.Seq[Call] {
	return func(yield func(Call) bool) {
		lex := newLexer(d, sql, usual(d))
		for last := (token{}); ; {
			t := lex.next()
			if t.kind == end {
				return
			}
			if t.isMark(sql, '(') {
				if fn, shared := function(d, last.name(sql)); fn != 0 {
					inside := lex // a copy: calls among the arguments come next
					if !yield(inside.call(fn, shared, inside.operands())) {
						return
					}
				}
			}
			last = t
		}
	}
}

func (l *lexer) call(fn Fn, shared bool, args list) Call {
	c := Call{Fn: fn, Shared: shared}
	switch {
	case l.d == MySQL && args.n == arity(fn):
		c.N = min(args.n, 1) // the second is the timeout
	case l.d == Postgres && fn != UnlockAll && args.n <= 2:
		c.N = args.n
	}
	for i := range c.N {
		c.Keys[i] = l.operand(args.shapes[i])
	}
	return c
}

// arity is the number of arguments of MySQL's functions.
func arity(fn Fn) int {
	switch fn {
	case Lock:
		return 2
	case Unlock:
		return 1
	}
	return 0
}
