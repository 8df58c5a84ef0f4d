package dialect

import (
	"context"
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
	row := "ROW("
	if s.MariaDB {
		row = "("
	}
	rows := make([]string, len(leases))
	for i, l := range leases {
		rows[i] = row + number(int64(i)) + ",'" + l.Key + "','" + l.Owner + "'," + number(l.Token) + "," + micros(l.TTL) + ")"
	}
	values := "VALUES " + strings.Join(rows, ",")
	if s.MariaDB {
		return "(WITH v(i,k,o,t,d) AS (" + values + ") SELECT * FROM v) v"
	}
	return "(" + values + ") v(i,k,o,t,d)"
}
