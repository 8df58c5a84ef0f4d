package lockctx_test

import (
	"github.com/stretchr/testify/require"
)

// keepRows has a stranger's transaction keep the rows under lock, so that nobody passes.
func (lt *leaseTable) keepRows(keys ...string) (letGo func()) {
	lt.t.Helper()
	tx, err := lt.bare.Begin()
	require.NoError(lt.t, err)
	for _, key := range keys {
		var owner string
		require.NoError(lt.t, tx.QueryRow("SELECT owner FROM lockdb_lease WHERE lease_key = '"+lockName(lt.t, key)+"' FOR UPDATE").Scan(&owner))
	}
	return func() { require.NoError(lt.t, tx.Rollback()) }
}
