package dialect

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// RawHeld asks how many session locks the session holds. known is false if
// there may be more: the server does not say, for want of a privilege or of a table.
//
// MySQL shows them in performance_schema, MariaDB by name only: there locks are
// the names that can be meant, and all tells whether there can be others. MySQL is
// asked for the names, too: a lock taken while the instrumentation was off is not
// shown after it was turned on. Of one under a name that nobody told, nobody can
// tell then.
func (mysqlDialect) RawHeld(ctx context.Context, q Querier, locks []string, all bool) (n int64, known bool, err error) {
	n, shown, err := mysqlShown(ctx, q, locks)
	switch {
	case err == nil:
		return n, shown || all, nil
	case !mysqlAnswered(err):
		return 0, false, err
	case mysqlNoName(err): // and so it did not say what it shows
		n, shown, err = mysqlShown(ctx, q, nil)
		if err != nil && !mysqlAnswered(err) {
			return 0, false, err
		}
	}
	used, asked, err := mysqlUsed(ctx, q, locks)
	return max(n, used), shown || all && asked, err
}

// mysqlShown asks how many locks performance_schema shows, or by their names that
// the session holds, if those are more. shown is false if that may not be all: it
// shows none without instrumentation, which would show what this very statement
// locks, nor does it show what found no room in its table.
func mysqlShown(ctx context.Context, q Querier, locks []string) (n int64, shown bool, err error) {
	row, err := q.QuerySimple(ctx, "SELECT COUNT(IF(OBJECT_TYPE='USER LEVEL LOCK',1,NULL)), COUNT(IF(OBJECT_TYPE='TABLE',1,NULL))>0"+
		" AND COALESCE((SELECT VARIABLE_VALUE FROM performance_schema.global_status"+
		" WHERE VARIABLE_NAME='Performance_schema_metadata_lock_lost'),'')='0' AND VERSION() NOT LIKE '%MariaDB%', "+mysqlHolds(locks)+
		" FROM performance_schema.metadata_locks WHERE OWNER_THREAD_ID="+
		"(SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID=CONNECTION_ID())")
	if err != nil {
		return 0, false, err
	}
	if len(row) != 3 {
		return 0, false, errNoRow
	}
	numbers, err := integers(row, nil)
	if err != nil {
		return 0, false, err
	}
	return int64(max(numbers[0], numbers[2])), numbers[1] == 1, nil
}

// mysqlUsed asks how many of the locks the session holds. asked is false if it
// could not be asked for all.
func mysqlUsed(ctx context.Context, q Querier, locks []string) (n int64, asked bool, err error) {
	if len(locks) == 0 {
		return 0, true, nil
	}
	row, err := q.QuerySimple(ctx, "SELECT "+mysqlHolds(locks))
	switch {
	case err == nil && len(row) != 1:
		return 0, false, errNoRow
	case err == nil:
		n, err = integer(row[0])
		return n, err == nil, err
	case !mysqlAnswered(err):
		return 0, false, err
	case len(locks) == 1:
		return 0, mysqlNoName(err), nil
	}
	asked = true
	for i := range locks { // one that is no name must not hide the others
		one, ok, err := mysqlUsed(ctx, q, locks[i:i+1])
		if err != nil {
			return 0, false, err
		}
		n, asked = n+one, asked && ok
	}
	return n, asked, nil
}

// mysqlHolds is the number of the locks that the session holds.
func mysqlHolds(locks []string) string {
	var b strings.Builder
	b.WriteByte('0')
	for _, name := range locks {
		b.WriteString("+COALESCE(IS_USED_LOCK(CONVERT(0x" + hex.EncodeToString([]byte(name)) + " USING utf8mb4))=CONNECTION_ID(),0)")
	}
	return b.String()
}

// mysqlNoName tells that the server has no lock of such a name.
func mysqlNoName(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == 3057 || e.Number == 4163 || e.Number == 1059) // in MySQL, in MySQL 9, in MariaDB
}
