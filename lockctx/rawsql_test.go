package lockctx_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestALockTakenByTextIsTheGoroutinesUntilItReleasesIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		db.SetMaxOpenConns(4)
		text := rawSQLFor(t, s, key)
		busy, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for busy.Err() == nil {
				_, _ = db.ExecContext(busy, "SELECT 1")
			}
		}()
		for range 20 {
			require.True(t, yes(t, db, text.take))
			require.False(t, out.try(key), "the lock is free while its taker has it")
			stranger := make(chan bool, 1)
			go func() { stranger <- yes(t, db, text.release) }()
			require.False(t, <-stranger, "another goroutine released it")
			require.True(t, yes(t, db, text.release), "its taker could not release it")
			require.True(t, out.try(key), "the lock is held after its release")
		}
		cancel()
		<-done
	})
}

func TestWhatATextLeavesInATransactionOrOnAConnIsReleasedWithIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		rec := &recorder{}
		db, out, key := open(t, s, driver.WithObserver(rec)), newOutsider(t, s), dbtest.Key(t)
		text := rawSQLFor(t, s, key)
		tx, err := db.BeginTx(testCtx(t), nil)
		require.NoError(t, err)
		require.True(t, yes(t, tx, text.take))
		require.False(t, out.try(key))
		require.NoError(t, tx.Commit())
		require.True(t, out.try(key), "the lock outlived its transaction")

		c, err := db.Conn(testCtx(t))
		require.NoError(t, err)
		require.True(t, yes(t, c, text.take))
		inside, err := c.BeginTx(testCtx(t), nil)
		require.NoError(t, err)
		require.NoError(t, inside.Commit())
		require.False(t, out.try(key), "a transaction on the *sql.Conn released the conn's lock")
		require.NoError(t, c.Close())
		require.True(t, out.try(key), "the lock outlived its *sql.Conn")
		rec.tells(t, "left"+rec.all()[0].Key, "left"+rec.all()[1].Key)
	})
}

func TestAnOrphanedLockCanBeReleasedByAnyone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		text := rawSQLFor(t, s, key)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			require.True(t, yes(t, db, text.take))
		}()
		<-ended
		require.False(t, out.try(key))
		require.Eventually(t, func() bool { return yes(t, db, text.release) }, promptly, time.Millisecond)
		require.True(t, out.try(key))
	})
}

func TestRefuseSaysWhatToWriteInstead(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s, driver.WithRawLocks(driver.RawRefuse))
		text := rawSQLFor(t, s, dbtest.Key(t))
		_, err := db.ExecContext(testCtx(t), text.take)
		require.ErrorIs(t, err, lockctx.ErrUnsupported)
		require.ErrorContains(t, err, "lockctx.Acquire(ctx, db, key)")
		_, err = db.PrepareContext(testCtx(t), text.release)
		require.ErrorIs(t, err, lockctx.ErrUnsupported)
	})
}

func TestAPinnedSessionIsOneSessionForAllWhoHaveItsContext(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		db.SetMaxOpenConns(1)
		text := rawSQLFor(t, s, key)
		pin, err := lockctx.Pin(testCtx(t), db)
		require.NoError(t, err)
		query := func(q string) bool {
			var answer bool
			require.NoError(t, db.QueryRowContext(pin.Context(), q).Scan(&answer))
			return answer
		}
		require.True(t, query(text.take))
		require.False(t, out.try(key))
		other := make(chan bool, 1)
		go func() { other <- query(text.release) }()
		require.True(t, <-other)
		require.True(t, out.try(key))
		require.True(t, query(text.take))
		require.NoError(t, pin.Close())
		require.True(t, out.try(key), "Close left a lock")
		require.ErrorIs(t, pin.Err(), lockctx.ErrReleased)
	})
}
