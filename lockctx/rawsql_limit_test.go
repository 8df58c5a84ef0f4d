package lockctx_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// What is told of in README.md as what cannot be had.

func TestALockOfTheDBIsAnotherSessionsInATransaction(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		text := rawSQLFor(t, s, key)
		require.True(t, yes(t, db, text.take))
		tx, err := db.Begin()
		require.NoError(t, err)
		require.False(t, yes(t, tx, text.take))
		require.False(t, yes(t, tx, text.release), "it is not the transaction's to release")
		require.NoError(t, tx.Commit())
		require.False(t, out.try(key), "the transaction's end released it")
		require.True(t, yes(t, db, text.release))
		require.True(t, out.try(key))
	})
}

func TestWaitersThatFillThePoolDelayTheReleaseUntilOneGivesUp(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		db.SetMaxOpenConns(2)
		text := rawSQLFor(t, s, key)
		wait := strings.Replace(strings.Replace(text.take, ", 0)", ", 30)", 1), "_try", "", 1)
		require.True(t, yes(t, db, text.take))
		ctx, cancel := context.WithCancel(testCtx(t))
		gaveUp := make(chan error, 2)
		for range 2 {
			go func() { gaveUp <- second(db.ExecContext(ctx, wait)) }()
		}
		require.Eventually(t, func() bool { return db.Stats().InUse == 2 }, promptly, time.Millisecond)
		short, end := context.WithTimeout(testCtx(t), 100*time.Millisecond)
		defer end()
		require.ErrorIs(t, second(db.ExecContext(short, text.release)), context.DeadlineExceeded)
		require.False(t, out.try(key))
		lk := acquire(t, db, dbtest.Key(t)) // which needs no slot
		require.NoError(t, lk.Close())

		cancel()
		for range 2 {
			require.Error(t, <-gaveUp)
		}
		require.True(t, yes(t, db, text.release), "its owner could not release it afterwards")
		out.free(key, promptly) // the server may have let a waiter in that it did not know to be gone
	})
}

func TestRefuseRefusesWhatRunsOutOfSightToo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s, driver.WithRawLocks(driver.RawRefuse))
		texts := []string{"CALL p()", "DO $$ BEGIN END $$", "EXECUTE p", "FETCH c"}
		if s.IsMySQL() {
			texts = []string{"CALL p()", "DO 1", "EXECUTE p"}
		}
		for _, text := range texts {
			require.ErrorIs(t, second(db.Exec(text)), lockctx.ErrUnsupported, text)
		}
		tx, err := db.Begin()
		require.NoError(t, err)
		require.ErrorIs(t, second(tx.Exec(texts[0])), lockctx.ErrUnsupported)
		require.NoError(t, tx.Rollback(), "it was not sent, so that the transaction goes on")
	})
}
