package lockctx_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// The connection that a renewal had is closed when it has been idle for a while.
func TestAServerThatTakesNoMoreConnectionsCostsNoLease(t *testing.T) {
	const ttl, idle = 6 * time.Second, 2 * time.Second
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		p := dbtest.Private(t, s.Kind())
		db := open(t, p, driver.WithTTL(idle))
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(ttl))
		bare := p.Open(t)
		var all []*sql.Conn
		var full time.Time // since when
		for lk.Err() == nil && (full.IsZero() || time.Since(full) < ttl) {
			if c, err := bare.Conn(testCtx(t)); err == nil {
				all = append(all, c)
				continue
			}
			if full.IsZero() {
				full = time.Now()
			}
			time.Sleep(2 * time.Millisecond)
		}
		err := lk.Err()
		for _, c := range all {
			require.NoError(t, c.Close())
		}
		require.NoError(t, err, "with %d connections", len(all))
		require.NoError(t, lk.Close())
	})
}
