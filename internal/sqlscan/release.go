package sqlscan

import (
	"database/sql/driver"
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// MayReleaseName reports whether c, run with args, may release the MySQL lock
// of this name, which is of ASCII characters. It is true where c does not tell
// which lock it releases. Names are compared as MySQL does, without case: where
// MariaDB would tell two apart, the doubt counts. A NULL releases nothing.
func (c Call) MayReleaseName(name string, args []driver.NamedValue) bool {
	if c.Fn != Unlock || c.N != 1 {
		return c.Fn == Unlock || c.Fn == UnlockAll
	}
	switch k := c.Keys[0]; k.Kind {
	case Text:
		return mayFold(k.Text, name)
	case Int:
		return strconv.FormatInt(k.Int, 10) == name
	case Arg:
		v, known := argument(args, k.Arg)
		if !known {
			return true
		}
		switch v := v.(type) {
		case nil:
			return false
		case string:
			return mayFold(v, name)
		case []byte:
			return v != nil && mayFold(string(v), name)
		case int64:
			return strconv.FormatInt(v, 10) == name
		}
	}
	return true
}

// MayReleaseID reports whether c, run with args, may release the PostgreSQL
// lock with this bigint. It is true where c does not tell which lock it
// releases; the pair of int4 never does. It does not look at the mode: the
// caller compares Shared if that is wanted.
//
// pgx takes options as leading arguments (QueryExecMode and others): args must
// come without them.
func (c Call) MayReleaseID(id int64, args []driver.NamedValue) bool {
	if c.Fn != Unlock || c.N == 0 {
		return c.Fn == Unlock || c.Fn == UnlockAll
	}
	return c.N == 1 && c.Keys[0].mayBe(id, args)
}

// MayReleasePair is MayReleaseID for a lock with a pair of int4.
func (c Call) MayReleasePair(a, b int32, args []driver.NamedValue) bool {
	if c.Fn != Unlock || c.N == 0 {
		return c.Fn == Unlock || c.Fn == UnlockAll
	}
	return c.N == 2 && c.Keys[0].mayBe(int64(a), args) && c.Keys[1].mayBe(int64(b), args)
}

func (o Operand) mayBe(id int64, args []driver.NamedValue) bool {
	switch o.Kind {
	case Int:
		return o.Int == id
	case Arg:
		v, known := argument(args, o.Arg)
		return !known || mayEqual(v, id)
	}
	return true
}

// argument is the value of the placeholder n; it is not known if args has names
// or is too short.
func argument(args []driver.NamedValue, n int) (driver.Value, bool) {
	if n < 1 || n > len(args) || args[n-1].Name != "" {
		return nil, false
	}
	return args[n-1].Value, true
}

// mayEqual compares with what a driver that converts values itself may be given.
func mayEqual(v driver.Value, id int64) bool {
	var n int64
	switch v := v.(type) {
	case nil:
		return false
	case int64:
		n = v
	case int:
		n = int64(v)
	case int32:
		n = int64(v)
	case int16:
		n = int64(v)
	case int8:
		n = int64(v)
	case uint8:
		n = int64(v)
	case uint16:
		n = int64(v)
	case uint32:
		n = int64(v)
	case uint:
		return uint64(v) <= math.MaxInt64 && int64(v) == id
	case uint64:
		return v <= math.MaxInt64 && int64(v) == id
	case string:
		i, err := strconv.ParseInt(v, 10, 64)
		return err != nil || i == id
	default:
		return true
	}
	return n == id
}

// mayFold reports whether a server that folds case may take s for name. A
// character outside ASCII may fold to one inside (the Kelvin sign to k), and
// bytes that are no UTF-8 are of an unknown character set.
func mayFold(s, name string) bool {
	for i := range len(name) {
		r, n := utf8.DecodeRuneInString(s)
		want := rune(name[i])
		if n == 0 || r != utf8.RuneError && unicode.ToLower(r) != unicode.ToLower(want) && unicode.ToUpper(r) != unicode.ToUpper(want) {
			return false
		}
		s = s[n:]
	}
	return s == ""
}
