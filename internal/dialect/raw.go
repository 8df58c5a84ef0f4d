package dialect

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/lockdb/lockdb/internal/sqlscan"
)

// RawScan tells what a statement may do with session locks. It allocates nothing.
func (mysqlDialect) RawScan(query string) sqlscan.Verdict {
	return sqlscan.Scan(sqlscan.MySQL, query)
}

// RawScan tells what a statement may do with session locks. It allocates nothing.
func (postgresDialect) RawScan(query string) sqlscan.Verdict {
	return sqlscan.Scan(sqlscan.Postgres, query)
}

// RawCall is one plain call of a lock function with its arguments.
type RawCall struct {
	Fn sqlscan.Fn
	// Lock is the lock as the server names it; "" if all are meant, or on MySQL if
	// the text does not tell.
	Lock   string
	Shared bool // a shared lock of PostgreSQL
}

// RawPlain gives the call of a statement that is one plain call, the result of
// which tells what it did.
func (mysqlDialect) RawPlain(query string, args []driver.NamedValue) (RawCall, bool) {
	c, ok := sqlscan.Plain(sqlscan.MySQL, query)
	if !ok {
		fn, ok := sqlscan.Answer(query)
		return RawCall{Fn: fn}, ok
	}
	r := RawCall{Fn: c.Fn}
	if c.N > 0 {
		r.Lock, _ = mysqlRawName(c.Keys[0], args)
	}
	return r, true
}

func mysqlRawName(o sqlscan.Operand, args []driver.NamedValue) (string, bool) {
	switch o.Kind {
	case sqlscan.Text:
		return o.Text, o.Text != ""
	case sqlscan.Int: // the server takes its digits for the name
		return number(o.Int), true
	case sqlscan.Arg:
		if o.Arg < 1 || o.Arg > len(args) {
			return "", false
		}
		name := text(args[o.Arg-1].Value)
		return name, name != ""
	}
	return "", false
}

// RawPlain gives the call of a statement that is one plain call, the result of
// which tells what it did.
func (postgresDialect) RawPlain(query string, args []driver.NamedValue) (RawCall, bool) {
	c, ok := sqlscan.Plain(sqlscan.Postgres, query)
	if !ok {
		return RawCall{}, false
	}
	r := RawCall{Fn: c.Fn, Shared: c.Shared}
	if c.N > 0 {
		r.Lock, ok = pgRawName(c, withoutOptions(args))
	}
	return r, ok
}

// pgRawName is the number, or both with a comma between.
func pgRawName(c sqlscan.Call, args []driver.NamedValue) (string, bool) {
	var parts []string
	for _, o := range c.Keys[:c.N] {
		n := o.Int
		switch o.Kind {
		case sqlscan.Int:
		case sqlscan.Arg:
			if o.Arg < 1 || o.Arg > len(args) {
				return "", false
			}
			var err error
			if n, err = integer(args[o.Arg-1].Value); err != nil {
				return "", false
			}
		default:
			return "", false
		}
		parts = append(parts, number(n))
	}
	return strings.Join(parts, ","), len(parts) > 0
}

// RawLocks are the locks that the calls in a statement name; known is false if
// there may be others.
func (mysqlDialect) RawLocks(query string, args []driver.NamedValue) (locks []string, known bool) {
	known = !sqlscan.Hidden(sqlscan.MySQL, query)
	for c := range sqlscan.Calls(sqlscan.MySQL, query) {
		if c.Fn != sqlscan.Lock && c.Fn != sqlscan.Unlock {
			continue
		}
		name, ok := mysqlRawName(c.Keys[0], args)
		if !ok {
			known = false
			continue
		}
		locks = append(locks, name)
	}
	return locks, known
}

// RawLocks are the locks that the calls in a statement name; known is false if
// there may be others.
func (postgresDialect) RawLocks(query string, args []driver.NamedValue) (locks []string, known bool) {
	known = !sqlscan.Hidden(sqlscan.Postgres, query)
	args = withoutOptions(args)
	for c := range sqlscan.Calls(sqlscan.Postgres, query) {
		if c.Fn == sqlscan.UnlockAll {
			continue
		}
		name, ok := pgRawName(c, args)
		if !ok {
			known = false
			continue
		}
		locks = append(locks, name)
	}
	return locks, known
}

// RawOnlyReleases tells whether no lock function in a statement takes a lock.
func (mysqlDialect) RawOnlyReleases(query string) bool {
	return onlyReleases(sqlscan.MySQL, query)
}

// RawOnlyReleases tells whether no lock function in a statement takes a lock.
func (postgresDialect) RawOnlyReleases(query string) bool {
	return onlyReleases(sqlscan.Postgres, query)
}

func onlyReleases(d sqlscan.Dialect, query string) bool {
	for c := range sqlscan.Calls(d, query) {
		if c.Fn == sqlscan.Lock || c.Fn == sqlscan.TryLock {
			return false
		}
	}
	return !sqlscan.Hidden(d, query)
}

// RawReleaseAll releases all session locks of the session, and tells how many
// there were.
func (mysqlDialect) RawReleaseAll(ctx context.Context, q Querier) (n int64, err error) {
	row, err := q.QuerySimple(ctx, "SELECT RELEASE_ALL_LOCKS()")
	if err != nil {
		return 0, err
	}
	if len(row) != 1 {
		return 0, errNoRow
	}
	return integer(row[0])
}

// RawReleaseAll releases all session locks of the session. How many there were
// RawHeld tells.
func (d postgresDialect) RawReleaseAll(ctx context.Context, q Querier) (n int64, err error) {
	return 0, d.ReleaseAll(ctx, q)
}

var errNoRow = errors.New("no answer came")

// RawHeld asks how many session locks the session holds. It must not be in a transaction,
// whose own locks would count.
func (postgresDialect) RawHeld(ctx context.Context, q Querier, _ []string, _ bool) (n int64, known bool, err error) {
	row, err := q.QuerySimple(ctx, "SELECT count(*) FROM pg_locks WHERE locktype='advisory' AND pid=pg_backend_pid() AND granted")
	if err != nil || len(row) != 1 {
		return 0, false, err
	}
	n, err = integer(row[0])
	return n, err == nil, err
}
