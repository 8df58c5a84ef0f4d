package conn_test

import (
	"database/sql"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestASessionThatIsLostRightAfterItsDialCountsForNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		c, err := driver.OpenConnector(s.DSN(), driver.WithMaxSessions(1))
		require.NoError(t, err)
		db := sql.OpenDB(c)
		require.NoError(t, c.Keeper().OpenLost(testCtx(t)))
		lk, err := lockctx.Acquire(testCtx(t), db, dbtest.Key(t))
		require.NoError(t, err, "it takes the place of another one")
		require.NoError(t, lk.Close())
		requireCloses(t, db, "Close waits for a session that is gone")
	})
}

func TestDBCloseEndsADialWhoseNetworkIsSilentSinceTheSelfTestsBegin(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		relay := s.Relay(t)
		silent := make(chan struct{})
		var once sync.Once
		f := &faulty{match: func(statement string) bool {
			if statement == "begin" {
				once.Do(func() { relay.CutForGood(); close(silent) })
			}
			return false
		}}
		c, err := driver.OpenConnector(relay.DSN(), driver.WithInterceptor(f))
		require.NoError(t, err)
		db := sql.OpenDB(c)
		acquired := make(chan error, 1)
		go func() {
			_, err := lockctx.Acquire(testCtx(t), db, dbtest.Key(t))
			acquired <- err
		}()
		<-silent
		requireCloses(t, db, "Close waits for a COMMIT that nobody answers")
		require.ErrorIs(t, <-acquired, lockctx.ErrClosed)
	})
}
