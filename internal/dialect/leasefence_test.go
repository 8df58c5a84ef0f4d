package dialect_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dialect"
)

var levels = []string{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}

// begin begins a transaction, has it take its snapshot, and writes something in it.
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

// fencedCommit is a way to commit the user's transaction on q under leases.
type fencedCommit func(ctx context.Context, m *member, q *querier, leases []dialect.Lease) error

var fencedCommits = map[string]fencedCommit{
	"Fence": func(ctx context.Context, m *member, q *querier, leases []dialect.Lease) error {
		if err := m.Fence(ctx, q, m.s, leases); err != nil {
			return err
		}
		return q.Exec(ctx, "COMMIT")
	},
	"FenceQuery": func(ctx context.Context, m *member, q *querier, leases []dialect.Lease) error {
		for _, l := range leases {
			row, err := q.QuerySimple(ctx, m.FenceQuery(m.s, l))
			if err != nil {
				return err
			}
			if row == nil {
				return dialect.ErrMoved
			}
		}
		return q.Exec(ctx, "COMMIT")
	},
	"FenceAndCommit": func(ctx context.Context, m *member, q *querier, leases []dialect.Lease) error {
		return m.FenceAndCommit(ctx, q, m.s, leases)
	},
}

func (m *member) commits() map[string]fencedCommit {
	can := map[string]fencedCommit{}
	for name, commit := range fencedCommits {
		if name != "FenceAndCommit" || m.s.FenceCommits {
			can[name] = commit
		}
	}
	return can
}

// eachFence runs fn for each isolation level and way to commit, in a transaction on q under two leases.
func eachFence(t *testing.T, fn func(t *testing.T, m *member, q *querier, leases []dialect.Lease, level string, commit fencedCommit)) {
	eachTable(t, func(t *testing.T, tab *table) {
		m, q := tab.member(t), tab.bare(t)
		m.run(t, "CREATE TABLE work (n int)")
		for _, level := range levels {
			for name, commit := range m.commits() {
				t.Run(level+"/"+name, func(t *testing.T) {
					m.run(t, "DELETE FROM work", "DELETE FROM lockdb_lease")
					if m.s.SnapshotIsolation { // as it is by default since 11.6.2
						q.run(t, "SET SESSION innodb_snapshot_isolation=ON")
					}
					leases := []dialect.Lease{m.take(t, "a", "me", time.Minute), m.take(t, "b", "you", time.Minute)}
					m.take(t, "other", "me", time.Minute)
					tab.begin(t, q, level)
					fn(t, m, q, leases, level, commit)
					require.NoError(t, q.Exec(t.Context(), "ROLLBACK"))
				})
			}
		}
	})
}

func (m *member) requireWork(t *testing.T, rows int) {
	t.Helper()
	got, err := m.QueryRows(t.Context(), "SELECT n FROM work")
	require.NoError(t, err)
	require.Len(t, got, rows)
}

func TestRenewalsDoNotDisturbAFencedCommit(t *testing.T) {
	eachFence(t, func(t *testing.T, m *member, q *querier, leases []dialect.Lease, _ string, commit fencedCommit) {
		n, err := m.Renew(t.Context(), m.querier, m.s, leases)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.NoError(t, commit(t.Context(), m, q, leases))
		m.requireWork(t, 1)
	})
}

func TestAnExpiredLeaseThatNobodyTookIsCommittedUnder(t *testing.T) {
	eachFence(t, func(t *testing.T, m *member, q *querier, leases []dialect.Lease, _ string, commit fencedCommit) {
		for _, l := range leases {
			m.release(t, l)
		}
		require.NoError(t, commit(t.Context(), m, q, leases))
		m.requireWork(t, 1)
	})
}

// conflicts tells where the server answers a changed token with a conflict.
func (m *member) conflicts(level string) bool {
	return !m.IsMySQL() && (level == "REPEATABLE READ" || level == "SERIALIZABLE")
}

func TestAFenceFindsALeaseThatWasTaken(t *testing.T) {
	for what, steal := range map[string]func(t *testing.T, m *member, l dialect.Lease){
		"after its release": func(t *testing.T, m *member, l dialect.Lease) {
			m.release(t, l)
			m.take(t, l.Key, "thief", time.Minute)
		},
		"by its own owner": func(t *testing.T, m *member, l dialect.Lease) { m.take(t, l.Key, l.Owner, time.Minute) },
		"by DELETE": func(t *testing.T, m *member, l dialect.Lease) {
			m.run(t, "DELETE FROM lockdb_lease WHERE lease_key='"+l.Key+"'")
		},
	} {
		t.Run(what, func(t *testing.T) {
			eachFence(t, func(t *testing.T, m *member, q *querier, leases []dialect.Lease, level string, commit fencedCommit) {
				steal(t, m, leases[1])
				err := commit(t.Context(), m, q, leases)
				if m.conflicts(level) {
					require.Equal(t, dialect.LeaseFaultRetry, m.Fault(err), "%v", err)
				} else {
					require.ErrorIs(t, err, dialect.ErrMoved)
				}
				moved, err := m.Moved(t.Context(), m.querier, m.s, leases)
				require.NoError(t, err)
				require.Equal(t, []int{1}, moved)
				require.NoError(t, q.Exec(t.Context(), "ROLLBACK"))
				m.requireWork(t, 0)
			})
		})
	}
}
