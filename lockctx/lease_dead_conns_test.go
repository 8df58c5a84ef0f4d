package lockctx_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// Claims go to connections that are kept for them, which notice the server's end one by one.
func TestALeaseIsHadAlthoughAllConnectionsOfItsKindHaveDied(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		p := dbtest.Private(t, s.Kind())
		db, key := open(t, p), dbtest.Key(t)
		for range 5 {
			together(t, 40, func(i int) error {
				lk, err := lockctx.Acquire(testCtx(t), db, fmt.Sprint(key, i), lockctx.Lease(lasting))
				if err == nil {
					err = lk.Close()
				}
				return err
			})
		}
		p.Restart(t)
		lk := acquire(t, db, key, lockctx.Lease(lasting))
		require.NoError(t, lk.Close())
	})
}
