package conn_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestASharedSessionThatWasLostIsForgotten(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		c, err := driver.OpenConnector(s.DSN())
		require.NoError(t, err)
		db := sql.OpenDB(c)
		defer func() { require.NoError(t, db.Close()) }()
		for range 3 {
			lk, err := lockctx.Acquire(testCtx(t), db, dbtest.Key(t), lockctx.Multiplexed())
			require.NoError(t, err)
			// The one before is forgotten when it is closed, which nobody waits for.
			require.Eventually(t, func() bool { return c.Keeper().SharedSessions() == 1 }, 10*time.Second, time.Millisecond)
			held, err := lockctx.Held(testCtx(t), db)
			require.NoError(t, err)
			s.KillSession(t, held[0].Session)
			<-lk.Context().Done()
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		}
		lk, err := lockctx.Acquire(testCtx(t), db, dbtest.Key(t), lockctx.Multiplexed())
		require.NoError(t, err)
		require.Eventually(t, func() bool { return c.Keeper().SharedSessions() == 1 }, 10*time.Second, time.Millisecond)
		require.NoError(t, lk.Close())
	})
}
