package lockctx_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// Else whoever comes with TryAcquire would find the lease held by somebody who does not exist, and who waits would be
// told of a deadline that is none of his.
func TestABusyConnectionKeepsNoCompanionAndCostsNoWait(t *testing.T) {
	t.Parallel() // it waits for most of its time
	const claims = 16
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, other, key, rows := open(t, view, driver.WithMaxSessions(1)), open(t, view), dbtest.Key(t), newLeaseTable(t, view)
		lk := acquire(t, db, key, lockctx.Lease(lasting))
		all := make([]string, claims)
		for i := range all {
			all[i] = fmt.Sprint(key, i)
			require.NoError(t, acquire(t, other, all[i], lockctx.Lease(lasting)).Close())
		}
		letGo := rows.keepRows(all...)
		// Each of them waits for its row on the one connection that has the companion of lk.
		waiting := make([]<-chan error, claims)
		for i := range waiting {
			waiting[i] = async(func() error {
				lk, err := lockctx.Acquire(testCtx(t), db, all[i], lockctx.Lease(lasting))
				if err == nil {
					err = lk.Close()
				}
				return err
			})
		}
		require.Eventually(t, func() bool {
			return slices.ContainsFunc(view.Sessions(t), func(s dbtest.Session) bool {
				return (s.Command == "Query" || s.Command == "active") && strings.Contains(s.Query, "INSERT INTO")
			})
		}, promptly, time.Millisecond)
		require.NoError(t, lk.Close())
		time.Sleep(13 * time.Second) // beyond all bounds of a statement
		letGo()
		for _, w := range waiting {
			require.NoError(t, within(t, w, promptly, "a lease"))
		}
		require.Eventually(t, func() bool {
			lk, err := lockctx.TryAcquire(testCtx(t), other, key, lockctx.Lease(lasting))
			return err == nil && lk.Close() == nil
		}, promptly, 20*time.Millisecond, "the companion is on the connection still")
	})
}
