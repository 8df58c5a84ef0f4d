package dialect

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/go-sql-driver/mysql"

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

// RawHeld asks how many session locks the session holds. known is false if
// there may be more: the server does not say, for want of a privilege or of a table.
//
// MySQL shows them in performance_schema, MariaDB by name only: there locks are
// the names that can be meant, and all tells whether there can be others.
func (mysqlDialect) RawHeld(ctx context.Context, q Querier, locks []string, all bool) (n int64, known bool, err error) {
	row, err := q.QuerySimple(ctx, "SELECT COUNT(*), (SELECT COUNT(*) FROM performance_schema.setup_instruments"+
		" WHERE NAME='wait/lock/metadata/sql/mdl' AND ENABLED='YES'), VERSION() LIKE '%MariaDB%'"+
		" FROM performance_schema.metadata_locks WHERE OBJECT_TYPE='USER LEVEL LOCK' AND OWNER_THREAD_ID="+
		"(SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID=CONNECTION_ID())")
	switch {
	case err == nil && len(row) == 3:
		n, _ := integer(row[0])
		on, _ := integer(row[1])
		maria, _ := integer(row[2])
		if on == 1 && maria == 0 {
			return n, true, nil
		}
	case err != nil && !mysqlAnswered(err):
		return 0, false, err
	}
	if len(locks) == 0 {
		return 0, all, nil
	}
	n, err = mysqlUsed(ctx, q, locks)
	if err != nil && mysqlAnswered(err) && len(locks) > 1 { // one that is no name must not hide the others
		n, err = 0, nil
		for i := range locks {
			one, oneErr := mysqlUsed(ctx, q, locks[i:i+1])
			switch {
			case oneErr == nil:
				n += one
			case !mysqlAnswered(oneErr):
				return 0, false, oneErr
			case !mysqlNoName(oneErr):
				all = false
			}
		}
	}
	switch {
	case err == nil:
		return n, all, nil
	case mysqlNoName(err):
		return 0, all, nil
	case mysqlAnswered(err):
		return 0, false, nil
	}
	return 0, false, err
}

// mysqlUsed asks how many of the locks the session holds.
func mysqlUsed(ctx context.Context, q Querier, locks []string) (int64, error) {
	calls := make([]string, len(locks))
	for i, name := range locks {
		calls[i] = "COALESCE(IS_USED_LOCK(CONVERT(0x" + hex.EncodeToString([]byte(name)) + " USING utf8mb4))=CONNECTION_ID(),0)"
	}
	row, err := q.QuerySimple(ctx, "SELECT "+strings.Join(calls, "+"))
	if err != nil {
		return 0, err
	}
	if len(row) != 1 {
		return 0, errNoRow
	}
	return integer(row[0])
}

// mysqlNoName tells that the server has no lock of such a name.
func mysqlNoName(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == 3057 || e.Number == 4163 || e.Number == 1059) // in MySQL, in MySQL 9, in MariaDB
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
