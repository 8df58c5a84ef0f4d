package sqlscan_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	. "github.com/lockdb/lockdb/internal/sqlscan"
)

func txt(s string) Operand   { return Operand{Kind: Text, Text: s} }
func num(n int64) Operand    { return Operand{Kind: Int, Int: n} }
func argument(n int) Operand { return Operand{Kind: Arg, Arg: n} }

func call(fn Fn, keys ...Operand) Call {
	c := Call{Fn: fn, N: len(keys)}
	copy(c.Keys[:], keys)
	return c
}

func shared(c Call) Call {
	c.Shared = true
	return c
}

func TestCallsNameTheirLocks(t *testing.T) {
	for _, c := range []struct {
		d    Dialect
		sql  string
		want []Call
	}{
		{MySQL, "SELECT 1", nil},
		{MySQL, "SELECT GET_LOCK('x', 5)", []Call{call(Lock, txt("x"))}},
		{MySQL, "SELECT GET_LOCK('it''s', 5)", []Call{call(Lock, txt("it's"))}},
		{MySQL, `SELECT GET_LOCK("a""b'", 5)`, []Call{call(Lock, txt(`a"b'`))}},
		{MySQL, `SELECT GET_LOCK('a\nb', 5)`, []Call{call(Lock, Operand{})}},
		{MySQL, "SELECT GET_LOCK('', 5)", []Call{call(Lock, txt(""))}},
		{MySQL, "SELECT GET_LOCK(-42, 5)", []Call{call(Lock, num(-42))}},
		{MySQL, "SELECT GET_LOCK(?, ?)", []Call{call(Lock, argument(1))}},
		{MySQL, "SELECT ?, '?', /* ? */ `?`, RELEASE_LOCK(?)", []Call{call(Unlock, argument(2))}},
		{MySQL, "SELECT 1 /*! + ? */, RELEASE_LOCK(?)", []Call{call(Unlock, Operand{})}},
		{MySQL, `SELECT 'a\'?', RELEASE_LOCK(?)`, []Call{call(Unlock, Operand{})}},
		{MySQL, "SELECT RELEASE_LOCK(CONCAT('a', ?))", []Call{call(Unlock, Operand{})}},
		{MySQL, "SELECT RELEASE_LOCK('a' 'b')", []Call{call(Unlock, Operand{})}},
		{MySQL, "SELECT RELEASE_LOCK(_utf8mb4'a')", []Call{call(Unlock, Operand{})}},
		{MySQL, "SELECT RELEASE_LOCK('a' COLLATE utf8mb4_bin)", []Call{call(Unlock, Operand{})}},
		{MySQL, "SELECT RELEASE_LOCK(('a'))", []Call{call(Unlock, Operand{})}},
		{MySQL, "SELECT RELEASE_LOCK('a", []Call{call(Unlock)}},
		{MySQL, "SELECT RELEASE_LOCK('a', 'b')", []Call{call(Unlock)}},
		{MySQL, "SELECT RELEASE_ALL_LOCKS()", []Call{call(UnlockAll)}},
		{
			MySQL, "SELECT RELEASE_LOCK(IF(GET_LOCK('a', 1), 'a', 'b')), RELEASE_LOCK('c')",
			[]Call{call(Unlock, Operand{}), call(Lock, txt("a")), call(Unlock, txt("c"))},
		},
		{Postgres, "SELECT pg_advisory_lock(42)", []Call{call(Lock, num(42))}},
		{Postgres, "SELECT pg_advisory_lock_shared(42)", []Call{shared(call(Lock, num(42)))}},
		{Postgres, "SELECT pg_try_advisory_lock('-42'::bigint)", []Call{call(TryLock, num(-42))}},
		{Postgres, "SELECT pg_try_advisory_lock_shared($2, $1)", []Call{shared(call(TryLock, argument(2), argument(1)))}},
		{Postgres, "SELECT pg_advisory_unlock($3::int8)", []Call{call(Unlock, argument(3))}},
		{Postgres, "SELECT pg_advisory_unlock_shared(- 1, 2)", []Call{shared(call(Unlock, num(-1), num(2)))}},
		{Postgres, "SELECT pg_advisory_unlock(hashtext('a'), 2)", []Call{call(Unlock, Operand{}, num(2))}},
		{Postgres, "SELECT pg_advisory_unlock(1, 2, 3)", []Call{call(Unlock)}},
		{Postgres, "SELECT pg_advisory_unlock((SELECT 1, 2), a[1, 2])", []Call{call(Unlock, Operand{}, Operand{})}},
		{Postgres, "SELECT pg_advisory_unlock(' 42'), pg_advisory_unlock(4_2)", []Call{call(Unlock, Operand{}), call(Unlock, Operand{})}},
		{Postgres, "SELECT pg_advisory_unlock(-9223372036854775808), pg_advisory_unlock(9223372036854775807)", []Call{call(Unlock, num(-1<<63)), call(Unlock, num(1<<63-1))}},
		{Postgres, "SELECT pg_advisory_unlock(-9223372036854775809), pg_advisory_unlock(18446744073709551616)", []Call{call(Unlock, Operand{}), call(Unlock, Operand{})}},
		{Postgres, "SELECT pg_advisory_unlock($0), pg_advisory_unlock($99999999999)", []Call{call(Unlock, Operand{}), call(Unlock, Operand{})}},
		{Postgres, "SELECT pg_advisory_unlock(@id)", []Call{call(Unlock, Operand{})}},
		{Postgres, "SELECT pg_advisory_unlock_all()", []Call{call(UnlockAll)}},
	} {
		assert.Equal(t, c.want, slices.Collect(Calls(c.d, c.sql)), "%s", c.sql)
		got, plain := Plain(c.d, c.sql)
		assert.Equal(t, c.want != nil && !Scan(c.d, c.sql).Has(Opaque), plain, "%s", c.sql)
		if plain {
			assert.Equal(t, c.want, []Call{got}, "%s", c.sql)
		}
	}
}

func TestCallsCanBeLeftEarly(t *testing.T) {
	for c := range Calls(Postgres, "SELECT pg_advisory_lock(1), pg_advisory_lock(2)") {
		assert.Equal(t, num(1), c.Keys[0])
		break
	}
}
