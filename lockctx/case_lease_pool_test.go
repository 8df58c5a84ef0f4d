package lockctx_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestC62_ABusyPoolCostsNoLease(t *testing.T) {
	const ttl = 2 * time.Second
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, other, key, rows := open(t, view), open(t, view), dbtest.Key(t), newLeaseTable(t, view)
		db.SetMaxOpenConns(2)
		lk := acquire(t, db, key, lockctx.Lease(ttl))
		busy := make([]<-chan error, 2)
		for i := range busy {
			busy[i] = async(func() error {
				_, err := db.ExecContext(testCtx(t), sleepQuery(s, 2*ttl.Seconds()))
				return err
			})
		}
		require.Eventually(t, func() bool { return db.Stats().InUse == 2 }, promptly, time.Millisecond)
		late := acquire(t, db, key+"2", lockctx.Lease(ttl)) // needs no slot either
		waiting := queueUp(t, other, key, lockctx.Lease(ttl))
		for db.Stats().InUse == 2 && len(busy[0]) == 0 {
			for _, one := range []*lockctx.Lock{lk, late} {
				row, _ := rows.look(one.Key())
				require.Equal(t, one.Token(), row.token)
				require.Positive(t, row.left)
				require.NoError(t, one.Err())
			}
			require.Empty(t, waiting)
			time.Sleep(20 * time.Millisecond)
		}
		for _, b := range busy {
			require.NoError(t, within(t, b, promptly, "the end of a statement"))
		}
		require.NoError(t, late.Close())
		require.NoError(t, lk.Close())
		g := within(t, waiting, promptly, "the next one's turn")
		require.NoError(t, g.err)
		require.NoError(t, g.lk.Close())
	})
}

func TestC62_CloseOfALeaseNeedsNoSlotOfABusyPool(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		db, key, rows := open(t, view), dbtest.Key(t), newLeaseTable(t, view)
		db.SetMaxOpenConns(1)
		slot, err := db.Conn(testCtx(t))
		require.NoError(t, err)
		lk := acquire(t, db, key, lockctx.Lease(lasting))
		require.NoError(t, lk.Close())
		require.False(t, rows.isHeld(key))
		require.NoError(t, slot.Close())
	})
}
