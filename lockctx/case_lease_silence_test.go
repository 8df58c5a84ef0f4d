package lockctx_test

import (
	sqldriver "database/sql/driver"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// The network falls silent while a COMMIT is under way, and stays so for longer than anybody wants to wait.
func TestACommitUnderALeaseThatIsLostDoesNotWaitForASilentNetwork(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		relay := view.Relay(t)
		db := openDSN(t, relay.DSN(), driver.WithBusyTimeout(time.Second))
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(2*time.Second))
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), tx, 1)
		relay.CutForGood()
		commit := asyncIn(t, "(*fence).commit", tx.Commit)
		requireLost(t, lk)
		err = within(t, commit, 5*time.Second, "Commit")
		if view.Kind() == dbtest.MySQL {
			require.NotErrorIs(t, err, lockctx.ErrOutcomeUnknown, "COMMIT was not sent yet")
		} else {
			require.ErrorIs(t, err, lockctx.ErrOutcomeUnknown)
		}
		require.Error(t, err)
		require.NotErrorIs(t, err, sqldriver.ErrBadConn)
		relay.Heal()
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		require.Empty(t, tab.ids())
	})
}
