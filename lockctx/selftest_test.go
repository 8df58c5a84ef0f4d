package lockctx_test

import (
	"context"
	"database/sql/driver"
	"testing"
	"time"

	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"

	lockdb "github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// killer ends all other sessions of the test's database when the second connection has been made,
// which is the self-test's: the first holds the lock that it tries for.
type killer struct {
	sqlmw.NullInterceptor
	t     *testing.T
	view  *dbtest.Server
	conns int
}

func (k *killer) ConnectorConnect(ctx context.Context, c driver.Connector) (driver.Conn, error) {
	if k.conns++; k.conns == 2 {
		for _, session := range k.view.Sessions(k.t) {
			k.view.KillSession(k.t, session.ID)
		}
		require.Eventually(k.t, func() bool { return len(k.view.Sessions(k.t)) == 0 }, promptly, time.Millisecond)
	}
	return c.Connect(ctx)
}

func TestAKillDuringTheSelfTestDoesNotCondemnTheServer(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		k := &killer{t: t, view: view}
		db, key := open(t, view, lockdb.WithInterceptor(k)), dbtest.Key(t)
		_, err := lockctx.Acquire(testCtx(t), db, key)
		require.Error(t, err, "its session was killed")
		require.NotErrorIs(t, err, lockctx.ErrUnsupported)
		lk := acquire(t, db, key)
		require.NoError(t, lk.Close())
		require.Greater(t, k.conns, 2)
	})
}
