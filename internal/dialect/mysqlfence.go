package dialect

import (
	"context"
	"strings"
)

// Fence reads the rows as they are, and locks them, whatever the transaction's isolation level
// is: a renewal since then does not matter, another token does.
func (t mysqlLeases) Fence(ctx context.Context, q Querier, s LeaseServer, leases []Lease) error {
	row, err := q.QueryRow(ctx, mysqlCurrent(s)+"SELECT "+t.count(leases))
	return fenced(row, err, len(leases))
}

// FenceAndCommit is a compound statement of MariaDB's. It commits only if the count is right: after
// KILL QUERY it may be NULL.
func (t mysqlLeases) FenceAndCommit(ctx context.Context, q Querier, s LeaseServer, leases []Lease) error {
	err := q.Exec(ctx, mysqlCurrent(s)+"BEGIN NOT ATOMIC IF "+t.count(leases)+"<=>"+number(int64(len(leases)))+
		" THEN COMMIT; ELSE SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO="+number(mysqlMovedNumber)+",MESSAGE_TEXT='"+fenceText+"'; END IF; END")
	if mysqlNumber(err) == mysqlMovedNumber && strings.Contains(err.Error(), fenceText) {
		return ErrMoved
	}
	return err
}

// mysqlMovedNumber and fenceText tell the fence's own error from one that a user's trigger signals.
const mysqlMovedNumber = 45190

func (t mysqlLeases) FenceQuery(s LeaseServer, l Lease) string {
	return mysqlCurrent(s) + "SELECT 1 FROM " + t.table() + " WHERE " + mysqlIs(l) + " LOCK IN SHARE MODE"
}

// mysqlCurrent lets a locking read see rows that have changed since the transaction's snapshot,
// where the server would take that for an error.
func mysqlCurrent(s LeaseServer) string {
	if s.SnapshotIsolation {
		return "SET STATEMENT innodb_snapshot_isolation=OFF FOR "
	}
	return ""
}

// count has a query of its own for each row, by its primary key, so that no other row is locked,
// and they are locked in their order.
func (t mysqlLeases) count(leases []Lease) string {
	counts := make([]string, len(leases))
	for i, l := range leases {
		counts[i] = "(SELECT COUNT(*) FROM " + t.table() + " WHERE " + mysqlIs(l) + " LOCK IN SHARE MODE)"
	}
	return strings.Join(counts, "+")
}
