package dialect

import (
	"context"
	"errors"
	"strings"
)

// Fence reads the rows as they are, and locks them, whatever the transaction's isolation level
// is: a renewal since then does not matter, another token does.
func (t mysqlLeases) Fence(ctx context.Context, q Querier, s LeaseServer, leases []Lease) error {
	row, err := q.QueryRow(ctx, mysqlCurrent(s)+"SELECT "+t.count(leases))
	return fenced(row, err, len(leases))
}

// FenceAndCommit is a compound statement of MariaDB's. It commits only if the count is right: after
// KILL QUERY, or at the server's time limit, it may be NULL. They can also meet the statement between
// its COMMIT and its END, and their error is the same.
func (t mysqlLeases) FenceAndCommit(ctx context.Context, q Querier, s LeaseServer, leases []Lease) error {
	err := q.Exec(ctx, mysqlCurrent(s)+"BEGIN NOT ATOMIC CASE COALESCE("+t.count(leases)+",-1) WHEN "+number(int64(len(leases)))+" THEN COMMIT; "+
		"WHEN -1 THEN "+mysqlSignal("70100", mysqlInterrupted, "Query execution was interrupted")+
		"ELSE "+mysqlSignal("45000", mysqlMovedNumber, fenceText)+"END CASE; END")
	switch n := mysqlNumber(err); {
	case n == mysqlMovedNumber && strings.Contains(err.Error(), fenceText):
		return ErrMoved
	case (n == mysqlInterrupted || n == mysqlTimedOut) && !inTransaction(ctx, q):
		return errors.Join(ErrCommitUnknown, err)
	}
	return err
}

// The errors of MariaDB's that cut a statement short: ER_QUERY_INTERRUPTED, ER_STATEMENT_TIMEOUT.
const (
	mysqlInterrupted = 1317
	mysqlTimedOut    = 1969
)

// inTransaction tells whether the session of MariaDB's is in a transaction for sure.
func inTransaction(ctx context.Context, q Querier) bool {
	for range 3 { // another KILL QUERY may meet this
		if row, err := q.QueryRow(ctx, "SELECT @@in_transaction"); err == nil && len(row) == 1 {
			in, err := integer(row[0])
			return err == nil && in == 1
		}
	}
	return false
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
	return mysqlSum(counts)
}

// mysqlSum adds by halves: the server works out a+b+c+d as ((a+b)+c)+d, and a long sum overruns the stack of
// its thread.
func mysqlSum(terms []string) string {
	if len(terms) == 1 {
		return terms[0]
	}
	half := len(terms) / 2
	return "(" + mysqlSum(terms[:half]) + "+" + mysqlSum(terms[half:]) + ")"
}
