package lockctx_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// closeByTen closes the lock on ten goroutines at once.
func closeByTen(lk *lockctx.Lock) []error {
	var wg sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		wg.Go(func() { errs[i] = lk.Close() })
	}
	wg.Wait()
	return errs
}

func TestC40_CloseOfALeaseCanBeCalledOften(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		db, other, key, rows := open(t, view), open(t, view), dbtest.Key(t), newLeaseTable(t, view)
		for range 10 {
			lk := acquire(t, db, key, lockctx.Lease(forLong))
			next := queueUp(t, other, key, lockctx.Lease(forLong))
			for _, err := range closeByTen(lk) {
				require.NoError(t, err)
			}
			g := within(t, next, promptly, "the next one's turn")
			require.NoError(t, g.err)
			require.NoError(t, lk.Close())
			for _, err := range closeByTen(lk) {
				require.NoError(t, err)
			}
			require.ErrorIs(t, lk.Err(), lockctx.ErrReleased)
			row, _ := rows.look(key)
			require.Equal(t, g.lk.Token(), row.token)
			require.Positive(t, row.left, "Close has released the successor's lease")
			require.NoError(t, g.lk.Err())
			require.NoError(t, g.lk.Close())
		}
	})
}

func TestC40_CloseOfALostLeaseSaysSoEachTime(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		db, key, rows := open(t, view), dbtest.Key(t), newLeaseTable(t, view)
		told := acquire(t, db, key, lockctx.Lease(forLong), lockctx.RenewEvery(50*time.Millisecond))
		stolen := rows.steal(key)
		requireLost(t, told)
		for _, err := range append(closeByTen(told), told.Close()) {
			require.ErrorIs(t, err, lockctx.ErrLost)
		}

		key2 := dbtest.Key(t)
		unaware := acquire(t, db, key2, lockctx.Lease(forLong))
		stolen2 := rows.steal(key2)
		for _, err := range append(closeByTen(unaware), unaware.Close()) {
			require.ErrorIs(t, err, lockctx.ErrLost)
		}
		require.ErrorIs(t, unaware.Err(), lockctx.ErrLost)
		for k, token := range map[string]int64{key: stolen, key2: stolen2} {
			row, _ := rows.look(k)
			require.Equal(t, token, row.token)
			require.Equal(t, "thief", row.owner)
			require.Positive(t, row.left, "Close has released the successor's lease")
		}
	})
}

func TestC40_CloseOfALeaseAfterThatOfItsDB(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		db, key, rows := open(t, view), dbtest.Key(t), newLeaseTable(t, view)
		lk := acquire(t, db, key, lockctx.Lease(forLong))
		waiting := queueUp(t, db, key, lockctx.Lease(forLong))
		require.NoError(t, db.Close())
		within(t, lk.Context().Done(), promptly, "the end of the lock's context")
		require.False(t, rows.isHeld(key), "the lease outlives the db that it was acquired through")
		g := within(t, waiting, promptly, "the end of the wait")
		require.ErrorIs(t, g.err, lockctx.ErrClosed)
		next := acquire(t, open(t, view), key, lockctx.Lease(forLong))
		for _, err := range append(closeByTen(lk), lk.Close()) {
			if err != nil {
				require.ErrorIs(t, err, lockctx.ErrClosed)
			}
		}
		require.True(t, rows.isHeld(key), "Close has released the successor's lease")
		require.NoError(t, next.Err())
		require.NoError(t, next.Close())
		_, err := lockctx.Acquire(testCtx(t), db, key, lockctx.Lease(forLong))
		require.Error(t, err)
	})
}

func TestC40_CloseOfALeaseAndOfItsDBAtOnce(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		rows := newLeaseTable(t, view)
		for range 10 {
			db, key := open(t, view), dbtest.Key(t)
			lk := acquire(t, db, key, lockctx.Lease(forLong))
			waiting := queueUp(t, db, key, lockctx.Lease(forLong))
			closed := async(db.Close)
			for _, err := range closeByTen(lk) {
				if err != nil {
					require.ErrorIs(t, err, lockctx.ErrClosed)
				}
			}
			require.NoError(t, within(t, closed, promptly, "the db's Close"))
			g := within(t, waiting, promptly, "the end of the wait")
			if g.err != nil {
				require.ErrorIs(t, g.err, lockctx.ErrClosed)
			}
			require.False(t, rows.isHeld(key))
		}
	})
}

func TestC61_CloseOfAnExpiredLeaseDoesNotReleaseTheSuccessors(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		db, other, key, rows := open(t, view), open(t, view), dbtest.Key(t), newLeaseTable(t, view)
		lk := acquire(t, db, key, lockctx.Lease(forLong))
		rows.expire(key)
		next, err := lockctx.TryAcquire(testCtx(t), other, key, lockctx.Lease(forLong))
		require.NoError(t, err)
		require.Greater(t, next.Token(), lk.Token())
		before, _ := rows.look(key)
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		after, _ := rows.look(key)
		require.Equal(t, next.Token(), after.token)
		require.Equal(t, before.owner, after.owner)
		require.Positive(t, after.left)
		require.NoError(t, next.Err())
		require.NoError(t, next.Close())
	})
}
