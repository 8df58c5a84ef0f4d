package dialect

import (
	"context"
	"strconv"
	"strings"
)

// Renew goes through the leases in their order, and looks each row up by its key: lists of
// (key, owner, token) had the server read the whole table, and MariaDB reads a small one, with locks
// on everybody's rows, unless it is told not to.
func (t mysqlLeases) Renew(ctx context.Context, q Querier, s LeaseServer, leases []Lease) (int, error) {
	_, renewed, err := q.Run(ctx, "UPDATE "+mysqlValues(s, leases)+" STRAIGHT_JOIN "+t.table()+" l FORCE INDEX (PRIMARY) ON "+mysqlJoin+
		" SET l.expires_us="+mysqlNow+"+v.d")
	return int(renewed), err
}

func (t mysqlLeases) Moved(ctx context.Context, q Querier, s LeaseServer, leases []Lease) ([]int, error) {
	indices, err := q.QueryRows(ctx, "SELECT v.i FROM "+mysqlValues(s, leases)+" LEFT JOIN "+t.table()+" l FORCE INDEX (PRIMARY) ON "+mysqlJoin+
		" WHERE l.lease_key IS NULL ORDER BY v.i")
	return integers(indices, err)
}

// Unlocked locks the rows that it can have, until it ends. MariaDB can since 10.6.
func (t mysqlLeases) Unlocked(ctx context.Context, q Querier, s LeaseServer, leases []Lease) ([]int, error) {
	return integers(q.QueryRows(ctx, "SELECT v.i FROM "+mysqlValues(s, leases)+" STRAIGHT_JOIN "+t.table()+" l FORCE INDEX (PRIMARY) ON "+mysqlJoin+
		" FOR UPDATE SKIP LOCKED"))
}

// mysqlJoin is true of a row that is a lease's own and was not released. The cast keeps the
// comparison in the column's type, so that the primary key serves it.
const mysqlJoin = "l.lease_key=CAST(v.k AS BINARY) AND l.token=v.t AND l.owner=CAST(v.o AS BINARY) AND l.expires_us>0"

// mysqlValues is a derived table of the leases: index, key, owner, token and TTL.
func mysqlValues(s LeaseServer, leases []Lease) string {
	begin, row, end := "(VALUES ", "ROW(", ") v(i,k,o,t,d)"
	if s.MariaDB {
		begin, row, end = "(WITH v(i,k,o,t,d) AS (VALUES ", "(", ") SELECT * FROM v) v"
	}
	var text strings.Builder // thousands of them in each interval
	text.Grow(len(begin) + mysqlValue*len(leases) + len(end))
	text.WriteString(begin)
	var digits [20]byte
	for i, l := range leases {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(row)
		text.Write(strconv.AppendInt(digits[:0], int64(i), 10))
		text.WriteString(",'")
		text.WriteString(l.Key)
		text.WriteString("','")
		text.WriteString(l.Owner)
		text.WriteString("',")
		text.Write(strconv.AppendInt(digits[:0], l.Token, 10))
		text.WriteByte(',')
		text.Write(strconv.AppendInt(digits[:0], max(0, l.TTL.Microseconds()), 10))
		text.WriteByte(')')
	}
	text.WriteString(end)
	return text.String()
}

// mysqlValue is about the length of a lease among mysqlValues.
const mysqlValue = 144
