package dialect_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// MariaDB's threads have a stack of 292 KiB.
func TestAFenceOfAThousandLeasesFitsIntoTheServersStack(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		m, q := tab.member(t), tab.bare(t)
		leases := m.fill(t, 20000)
		require.Len(t, leases, 1000)
		for name, commit := range m.commits() {
			q.run(t, "BEGIN")
			require.NoError(t, commit(t.Context(), m, q, leases), name)
		}
	})
}
