package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/conn"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// Those who give up at the moment of the grant are the hard ones: what they leave
// must not meet who comes next.
func TestWhoGivesUpIsNeverTakenForAnother(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, prefix := open(t, s), dbtest.Key(t)
		var inside [3]atomic.Int32
		together(t, 24, func(int) error {
			for range 400 {
				if err := takeOrGiveUp(testCtx(t), db, prefix, &inside); err != nil {
					return err
				}
			}
			return nil
		})
		require.Eventually(t, func() bool {
			st, err := lockctx.Stats(db)
			return err == nil && st.Waiters == 0 && st.LocksHeld == 0
		}, promptly, promptly/1000)
	})
}

// takeOrGiveUp makes one call, and perhaps gives it up soon.
func takeOrGiveUp(ctx context.Context, db *sql.DB, prefix string, inside *[3]atomic.Int32) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	which := rand.IntN(len(inside))
	key, soon := prefix+strconv.Itoa(which), time.Duration(rand.IntN(300))*time.Microsecond
	var opts []lockctx.Option
	switch rand.IntN(4) {
	case 0:
		opts = append(opts, lockctx.WithTimeout(soon))
	case 1:
		defer time.AfterFunc(soon, cancel).Stop()
	case 2:
		opts = append(opts, lockctx.Multiplexed())
	}
	lk, err := lockctx.Acquire(ctx, db, key, opts...)
	if err != nil {
		var fault *conn.Error
		if gaveUp := errors.Is(err, context.Canceled) || errors.Is(err, lockctx.ErrNotAcquired); gaveUp && errors.As(err, &fault) && fault.Key == key {
			return nil
		}
		return fmt.Errorf("of %s: %w", key, err)
	}
	if n := inside[which].Add(1); n != 1 || lk.Key() != key {
		return fmt.Errorf("%d inside %s with the lock of %s", n, key, lk.Key())
	}
	inside[which].Add(-1)
	return lk.Close()
}
