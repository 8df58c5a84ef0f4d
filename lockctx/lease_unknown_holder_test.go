package lockctx_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestNobodyIsSaidToHoldALeaseOfWhichTheServerDidNotAnswer(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		p := dbtest.Private(t, s.Kind())
		db, key := open(t, p), dbtest.Key(t)
		require.NoError(t, acquire(t, db, key, lockctx.Lease(lasting)).Close())
		p.Stop(t)
		ctx, cancel := context.WithTimeout(testCtx(t), 100*time.Millisecond)
		defer cancel()
		_, err := lockctx.Acquire(ctx, db, key, lockctx.Lease(lasting))
		p.Cont(t)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, err.Error(), "held by")
	})
}
