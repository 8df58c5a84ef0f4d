package dialect

import (
	"context"
	"strings"
)

// Fence is sent as a text: it is another one each time.
func (t pgLeases) Fence(ctx context.Context, q Querier, _ LeaseServer, leases []Lease) error {
	row, err := q.QuerySimple(ctx, "SELECT count(*) FROM "+t.keep(leases))
	return fenced(row, err, len(leases))
}

// FenceAndCommit has a cast fail that tells of the loss: the server drops the rest of the
// message then. Its text is not translated.
func (t pgLeases) FenceAndCommit(ctx context.Context, q Querier, _ LeaseServer, leases []Lease) error {
	err := q.Exec(ctx, "SELECT CASE count(*) WHEN "+number(int64(len(leases)))+" THEN 1 ELSE ('"+fenceText+" '||count(*))::int END FROM "+
		t.keep(leases)+"; COMMIT")
	if sqlState(err) == "22P02" && strings.Contains(err.Error(), fenceText) {
		return ErrMoved
	}
	return err
}

func (t pgLeases) FenceQuery(_ LeaseServer, l Lease) string {
	return "SELECT 1 FROM " + t.table() + " WHERE " + pgIs(l) + " FOR KEY SHARE"
}

// keep gives the rows that still are the leases', and locks them in their order.
func (t pgLeases) keep(leases []Lease) string {
	rows := make([]string, len(leases))
	for i, l := range leases {
		rows[i] = pgIs(l)
	}
	where, order := rows[0], ""
	if len(rows) > 1 {
		where, order = "("+strings.Join(rows, ") OR (")+")", " ORDER BY lease_key"
	}
	return "(SELECT 1 FROM " + t.table() + " WHERE " + where + order + " FOR KEY SHARE) f"
}
