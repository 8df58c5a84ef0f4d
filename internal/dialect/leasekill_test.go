package dialect_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dialect"
)

// A fence that is broken off while it waits for a row says neither that the lease is held nor that it is lost.
func TestAFenceThatIsCancelledAtTheServerCommitsNothingAndIsNoLoss(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		m, q, thief := tab.member(t), tab.bare(t), tab.bare(t)
		if m.s.Pooled {
			return // the sessions of others could be meant
		}
		m.run(t, "CREATE TABLE work (n int)")
		leases := []dialect.Lease{m.take(t, "a", "me", time.Minute), m.take(t, "b", "me", time.Minute)}
		row, err := q.QuerySimple(t.Context(), tab.sql("SELECT CONNECTION_ID()", "SELECT pg_backend_pid()"))
		require.NoError(t, err)
		id := fmt.Sprint(row[0])
		for name, commit := range m.commits() {
			for _, only := range []int{1, 2} {
				tab.begin(t, q, "READ COMMITTED")
				thief.run(t, tab.sql("START TRANSACTION", "BEGIN"), "UPDATE lockdb_lease SET token=token+1")
				ended := make(chan error, 1)
				go func() { ended <- commit(t.Context(), m, q, leases[:only]) }()
				require.Eventually(t, func() bool {
					for _, s := range tab.Sessions(t) {
						if fmt.Sprint(s.ID) == id {
							return tab.IsMySQL() && s.Command == "Query" || s.State == "transactionid"
						}
					}
					return false
				}, 10*time.Second, time.Millisecond)
				time.Sleep(10 * time.Millisecond) // it waits by then, mostly
				err := untilItEnds(ended, func() { m.run(t, tab.sql("KILL QUERY "+id, "SELECT pg_cancel_backend("+id+")")) })
				require.Error(t, err, name)
				require.NotErrorIs(t, err, dialect.ErrMoved, name)
				require.NoError(t, q.Exec(t.Context(), "ROLLBACK"))
				thief.run(t, "ROLLBACK")
				m.requireWork(t, 0)
			}
		}
	})
}
