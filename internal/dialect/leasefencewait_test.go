package dialect_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dialect"
)

func TestATakeOverWaitsForACommitThatIsFenced(t *testing.T) {
	eachFence(t, func(t *testing.T, m *member, q *querier, leases []dialect.Lease, _ string, _ fencedCommit) {
		m.release(t, leases[0])
		require.NoError(t, m.Fence(t.Context(), q, m.s, leases))
		other := m.take(t, "other", "me", time.Minute)
		n, err := m.Renew(t.Context(), m.querier, m.s, []dialect.Lease{other})
		require.NoError(t, err)
		require.Equal(t, 1, n, "the fence keeps another lease's row")

		thief := m.member(t)
		granted := make(chan dialect.Grant)
		go func() {
			g, err := thief.claim(t.Context(), dialect.Lease{Key: "a", Owner: "thief", TTL: time.Minute}, dialect.Companion{})
			if err != nil {
				t.Error(err)
			}
			granted <- g
		}()
		select {
		case g := <-granted:
			t.Fatalf("it did not wait: %+v", g)
		case <-time.After(30 * time.Millisecond):
		}
		require.NoError(t, q.Exec(t.Context(), "COMMIT"))
		require.True(t, (<-granted).Granted)
		m.requireWork(t, 1)
	})
}

func TestAFenceWaitsForATakeOverThatIsNotCommittedYet(t *testing.T) {
	eachFence(t, func(t *testing.T, m *member, q *querier, leases []dialect.Lease, level string, commit fencedCommit) {
		thief := m.bare(t)
		thief.run(t, m.sql("START TRANSACTION", "BEGIN"), "UPDATE lockdb_lease SET token=token+1 WHERE lease_key='b'")
		ended := make(chan error)
		go func() { ended <- commit(t.Context(), m, q, leases) }()
		select {
		case err := <-ended:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(30 * time.Millisecond):
		}
		thief.run(t, "COMMIT")
		err := <-ended
		if m.conflicts(level) {
			require.Equal(t, dialect.LeaseFaultRetry, m.Fault(err), "%v", err)
		} else {
			require.ErrorIs(t, err, dialect.ErrMoved)
		}
		require.NoError(t, q.Exec(t.Context(), "ROLLBACK"))
		m.requireWork(t, 0)
	})
}

func TestTwoTakeOversBehindAFenceAreNoDeadlock(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		m, q := tab.member(t), tab.bare(t)
		m.run(t, "CREATE TABLE work (n int)")
		for range 5 {
			l := m.take(t, "k", "me", time.Minute)
			m.release(t, l)
			tab.begin(t, q, "READ COMMITTED")
			require.NoError(t, m.Fence(t.Context(), q, m.s, []dialect.Lease{l}))
			grants := make(chan dialect.Grant)
			for _, owner := range []string{"x", "y", "z"} {
				thief := tab.member(t)
				go func() {
					g, err := thief.claimWhile(t.Context(), dialect.Lease{Key: "k", Owner: owner, TTL: time.Minute}, dialect.Companion{}, tookTooLong)
					if err != nil {
						t.Error(err)
					}
					grants <- g
				}()
			}
			time.Sleep(20 * time.Millisecond) // they have come to wait by then, mostly
			q.run(t, "COMMIT")
			granted := 0
			for range 3 {
				if (<-grants).Granted {
					granted++
				}
			}
			require.Equal(t, 1, granted)
			m.run(t, "UPDATE lockdb_lease SET expires_"+tab.sql("us=0", "at='epoch'"))
		}
	})
}
