package lockctx_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestNothingBegunUnderALeaseCommitsAfterItsClose(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for way, begin := range begins {
			t.Run(way, func(t *testing.T) {
				s := s.CreateDatabase(t)
				_, count := inserts(t, s)
				db, key := open(t, s), dbtest.Key(t)
				committed := 0
				for i := range 40 {
					lk := acquire(t, db, key, lockctx.Lease(ttl))
					tx := begin(t, db, lk)
					_, err := tx.ExecContext(context.Background(), fmt.Sprintf("INSERT INTO written VALUES (%d)", i))
					require.NoError(t, err)
					result := make(chan error, 1)
					go func() {
						time.Sleep(time.Duration(i%8) * 300 * time.Microsecond)
						result <- tx.Commit()
					}()
					time.Sleep(time.Duration(i%5) * 300 * time.Microsecond)
					cerr := lk.Close()
					seen := count() // nobody commits from here on
					if err := <-result; err == nil {
						committed++
						require.NoError(t, cerr)
					} else {
						require.NotErrorIs(t, err, lockctx.ErrOutcomeUnknown)
						require.NotErrorIs(t, err, lockctx.ErrLost)
					}
					require.Equal(t, committed, seen)
					require.Equal(t, committed, count())
				}
			})
		}
	})
}

func TestCloseOfALeaseDoesNotWaitForEverForAContextThatDoesNotEnd(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		write, count := inserts(t, s)
		db, key := open(t, s, driver.WithBusyTimeout(time.Millisecond)), dbtest.Key(t)
		lk := acquire(t, db, key, lockctx.Lease(ttl))
		tx, err := db.BeginTx(context.WithoutCancel(lk.Context()), nil)
		require.NoError(t, err)
		require.NoError(t, write(tx))
		start := time.Now()
		err = lk.Close()
		require.ErrorIs(t, err, lockctx.ErrReleased)
		require.ErrorContains(t, err, "their Commit fails")
		require.Less(t, time.Since(start), promptly)
		next := acquire(t, open(t, s), key, lockctx.Lease(ttl))
		require.ErrorIs(t, tx.Commit(), lockctx.ErrReleased)
		require.Zero(t, count())
		require.NoError(t, next.Close())
	})
}

func TestDBCloseDoesNotWaitForATransactionThatIsNeverEnded(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s, driver.WithBusyTimeout(time.Millisecond)), dbtest.Key(t)
		lk := acquire(t, db, key, lockctx.Lease(ttl))
		c, err := lk.Conn(testCtx(t))
		require.NoError(t, err)
		tx, err := c.BeginTx(testCtx(t), nil)
		require.NoError(t, err)
		closing := make(chan error, 1)
		go func() { closing <- c.Close() }() // which waits for tx
		time.Sleep(20 * time.Millisecond)
		closed := make(chan error, 1)
		go func() { closed <- db.Close() }()
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			t.Fatal("db.Close waits")
		}
		require.Error(t, tx.Commit())
		<-closing
	})
}
