package dialect_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dialect"
)

var levels = []string{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}

// begin begins a transaction that has its snapshot.
func (tab *table) begin(t testing.TB, q *querier, level string) {
	t.Helper()
	if tab.IsMySQL() {
		q.run(t, "SET TRANSACTION ISOLATION LEVEL "+level, "START TRANSACTION")
	} else {
		q.run(t, "BEGIN ISOLATION LEVEL "+level)
	}
	_, err := q.QueryRows(t.Context(), "SELECT n FROM work")
	require.NoError(t, err)
	q.run(t, "INSERT INTO work VALUES (1)")
}

// fences are the ways to commit under leases.
var fences = map[string]func(m *member, t *testing.T, q *querier, leases []dialect.Lease) error{
	"Fence": func(m *member, t *testing.T, q *querier, leases []dialect.Lease) error {
		if err := m.Fence(t.Context(), q, m.s, leases); err != nil {
			return err
		}
		return q.Exec(t.Context(), "COMMIT")
	},
	"FenceAndCommit": func(m *member, t *testing.T, q *querier, leases []dialect.Lease) error {
		if !m.s.FenceCommits {
			return m.fence(t, q, leases)
		}
		return m.FenceAndCommit(t.Context(), q, m.s, leases)
	},
	"FenceQuery": func(m *member, t *testing.T, q *querier, leases []dialect.Lease) error {
		for _, l := range leases {
			row, err := q.QuerySimple(t.Context(), m.FenceQuery(m.s, l))
			if err != nil {
				return err
			}
			if row == nil {
				return dialect.ErrMoved
			}
		}
		return q.Exec(t.Context(), "COMMIT")
	},
}

func (m *member) fence(t *testing.T, q *querier, leases []dialect.Lease) error {
	if err := m.Fence(t.Context(), q, m.s, leases); err != nil {
		return err
	}
	return q.Exec(t.Context(), "COMMIT")
}

func eachFence(t *testing.T, fn func(t *testing.T, tab *table, level string, commit func(m *member, t *testing.T, q *querier, leases []dialect.Lease) error)) {
	eachTable(t, func(t *testing.T, tab *table) {
		tab.bare(t).run(t, "CREATE TABLE work (n int)")
		for _, level := range levels {
			for name, commit := range fences {
				t.Run(level+"/"+name, func(t *testing.T) { fn(t, tab, level, commit) })
			}
		}
	})
}

func TestRenewalsDoNotDisturbAFencedCommit(t *testing.T) {
	eachFence(t, func(t *testing.T, tab *table, level string, commit func(m *member, t *testing.T, q *querier, leases []dialect.Lease) error) {
		m, q := tab.member(t), tab.bare(t)
		m.run(t, "DELETE FROM work", "DELETE FROM lockdb_lease")
		leases := []dialect.Lease{m.take(t, "a", "me", time.Minute), m.take(t, "b", "me", time.Minute)}
		tab.begin(t, q, level)
		n, err := m.Renew(t.Context(), m.querier, m.s, leases)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.NoError(t, commit(m, t, q, leases))
		rows, err := m.QueryRows(t.Context(), "SELECT n FROM work")
		require.NoError(t, err)
		require.Len(t, rows, 1, "it was not committed")
	})
}

func TestAFenceFindsALeaseThatWasTaken(t *testing.T) {
	eachFence(t, func(t *testing.T, tab *table, level string, commit func(m *member, t *testing.T, q *querier, leases []dialect.Lease) error) {
		m, q := tab.member(t), tab.bare(t)
		m.run(t, "DELETE FROM work", "DELETE FROM lockdb_lease")
		leases := []dialect.Lease{m.take(t, "a", "me", time.Minute), m.take(t, "b", "me", time.Minute)}
		tab.begin(t, q, level)
		m.release(t, leases[1])
		m.take(t, "b", "thief", time.Minute)
		err := commit(m, t, q, leases)
		if !tab.IsMySQL() && (level == "REPEATABLE READ" || level == "SERIALIZABLE") {
			require.Equal(t, dialect.LeaseFaultRetry, m.Fault(err), "%v", err)
		} else {
			require.ErrorIs(t, err, dialect.ErrMoved)
		}
		moved, err := m.Moved(t.Context(), m.querier, m.s, leases)
		require.NoError(t, err)
		require.Equal(t, []int{1}, moved)
		require.NoError(t, q.Exec(t.Context(), "ROLLBACK"))
		rows, err := m.QueryRows(t.Context(), "SELECT n FROM work")
		require.NoError(t, err)
		require.Empty(t, rows, "it was committed")
	})
}
