package dialect

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mysqlLeases sends literals only: a placeholder costs go-sql-driver two more round trips. Names are
// taken as they are written.
type mysqlLeases struct {
	leaseTable
	texts *mysqlTexts
}

func (mysqlDialect) Leases(table string) Leases {
	t := mysqlLeases{leaseTable: newLeaseTable(table)}
	t.texts = newMySQLTexts(t.table())
	return t
}

// mysqlNow is the database's time in microseconds, the same throughout a statement: the time
// at which it began. SYSDATE would be another one each time that the statement names it, and
// UNIX_TIMESTAMP goes back by an hour when a time zone's clocks do.
const mysqlNow = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))"

func (t mysqlLeases) table() string { return t.quoted("`") }

func (t mysqlLeases) DDL() string {
	return "CREATE TABLE IF NOT EXISTS " + t.table() + " (lease_key VARBINARY(64) NOT NULL PRIMARY KEY, " +
		"owner VARBINARY(64) NOT NULL, token BIGINT NOT NULL, expires_us BIGINT NOT NULL) ENGINE=InnoDB"
}

func (t mysqlLeases) Create(ctx context.Context, q Querier, _ LeaseServer) error {
	return q.Exec(ctx, t.DDL())
}

func (t mysqlLeases) Look(ctx context.Context, q Querier, key string) (row LeaseRow, found bool, err error) {
	values, err := q.QueryRow(ctx, "SELECT owner,token,expires_us-"+mysqlNow+" FROM "+t.table()+" WHERE lease_key='"+key+"'")
	return leaseRow(values, err)
}

// Release has LAST_INSERT_ID tell whether there was such a row, and whether the companion was
// released: affected rows do not count one that was released before. token is in it so that
// nothing of it is worked out where there is no row.
func (t mysqlLeases) Release(ctx context.Context, q Querier, _ LeaseServer, l Lease, companion *Name) (released, freed bool, err error) {
	var id int64
	if companion == nil {
		id, err = t.runPrepared(ctx, q, t.texts.release, l.Key, l.Token, l.Owner)
	} else {
		id, err = t.runPrepared(ctx, q, t.texts.freeing, companion.text, l.Key, l.Token, l.Owner)
	}
	return id >= 2, id == 3, err
}

// mysqlIs is true of the lease's row while it is the lease's.
func mysqlIs(l Lease) string {
	return "lease_key='" + l.Key + "' AND token=" + number(l.Token) + " AND owner='" + l.Owner + "'"
}

// Prune looks for the rows without locking any, in a round trip of its own: a DELETE that looked for
// itself would wait for the rows of others. A new lease of the key gets a token of the time then, so that it grows.
func (t mysqlLeases) Prune(ctx context.Context, q Querier, _ LeaseServer, age time.Duration, limit int) (int64, error) {
	idle := "GREATEST(expires_us,token)<" + mysqlNow + "-" + micros(age)
	keys, err := q.QueryRows(ctx, "SELECT HEX(lease_key) FROM "+t.table()+" WHERE "+idle+" ORDER BY lease_key LIMIT "+number(int64(limit)))
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	rows := make([]string, len(keys))
	for i, k := range keys {
		rows[i] = "SELECT 0x" + text(k) + " AS k"
	}
	// The table has no alias, which would be looked for in the session's default schema.
	_, pruned, err := q.Run(ctx, "DELETE "+t.table()+" FROM ("+strings.Join(rows, " UNION ALL ")+") v STRAIGHT_JOIN "+t.table()+
		" FORCE INDEX (PRIMARY) ON lease_key=CAST(v.k AS BINARY) WHERE "+idle)
	return pruned, err
}

func (mysqlLeases) Fault(err error) LeaseFault {
	switch MySQL.Classify(err) {
	case ClassOther, ClassGone:
		if errors.Is(err, errLeaseRaced) {
			return LeaseFaultRetry
		}
		return LeaseFaultOther
	case ClassUnsupported:
		return LeaseFaultNoLocks
	}
	switch mysqlNumber(err) {
	case 1213, 1205, 1020: // deadlock, wait for a row too long, MariaDB's row changed since the snapshot
		return LeaseFaultRetry
	case 1146: // ER_NO_SUCH_TABLE
		return LeaseFaultNoTable
	case 1054, 1136, 1176, 1364, 1406, 1265, 1366: // columns: unknown, their number, not a key, no default, too short, of another type
		return LeaseFaultShape
	case 1044, 1142, 1143, 1227: // the database, the table, a column, another privilege denied
		return LeaseFaultForbidden
	case 1290, 1792, 1836: // --read-only and the like, a read-only transaction, read-only mode
		return LeaseFaultReadOnly
	}
	return LeaseFaultRefused
}

func mysqlNumber(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}
