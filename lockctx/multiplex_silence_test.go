package lockctx_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestMultiplexedLocksAreLostBeforeTheServerFreesThemAlsoWhileOneIsTriedFor(t *testing.T) {
	const ttl = 2 * time.Second
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		relay := s.Relay(t)
		db, out, key := openDSN(t, relay.DSN(), driver.WithTTL(ttl)), newOutsider(t, s), dbtest.Key(t)
		lk := acquire(t, db, key, lockctx.Multiplexed())
		relay.CutForGood()
		tried := async(func() error {
			other, err := lockctx.TryAcquire(testCtx(t), db, key+"-other", lockctx.Multiplexed())
			if err == nil {
				err = other.Close()
			}
			return err
		})
		require.Eventually(t, func() bool {
			free := out.try(key)
			lost := lk.Err() != nil
			require.True(t, lost || !free, "the server grants to others what counts as held here")
			return lost && free
		}, promptly, time.Millisecond)
		relay.Heal()
		require.NoError(t, within(t, tried, promptly, "the try, on another session"))
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}
