package lockctx_test

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

// joined runs f on a goroutine that has ended when it returns.
func joined(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func TestLocksOfResultSetsThatOverlapAreAllKept(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		a, b := rawSQLFor(t, s, key+":a"), rawSQLFor(t, s, key+":b")
		for range 3 {
			first, err := db.QueryContext(testCtx(t), a.take)
			require.NoError(t, err)
			second, err := db.QueryContext(testCtx(t), b.take)
			require.NoError(t, err)
			require.NoError(t, second.Close())
			require.NoError(t, first.Close())
			require.False(t, out.try(key+":a"))
			require.False(t, out.try(key+":b"), "the end of the other result set released it")
			require.True(t, yes(t, db, b.release))
			require.False(t, out.try(key+":a"))
			require.True(t, yes(t, db, a.release))
			require.True(t, out.try(key+":a"))
			require.True(t, out.try(key+":b"))
		}
	})
}

func TestAnOrphansLockStaysReleasableHoweverOftenItWasTaken(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		text, mine := rawSQLFor(t, s, key), rawSQLFor(t, s, key+":mine")
		joined(func() {
			require.True(t, yes(t, db, text.take))
			require.True(t, yes(t, db, text.take))
		})
		require.True(t, yes(t, db, mine.take), "who releases it has a lock himself")
		require.True(t, yes(t, db, text.release))
		require.False(t, out.try(key), "it was taken twice")
		joined(func() { require.True(t, yes(t, db, text.release), "he who released once does not own it") })
		require.True(t, out.try(key))
		require.True(t, yes(t, db, mine.release))
		require.True(t, out.try(key+":mine"))
	})
}

func TestAGoroutineTakesSeveralLocksOnOneSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		a, b := rawSQLFor(t, s, key+":a"), rawSQLFor(t, s, key+":b")
		require.True(t, yes(t, db, a.take))
		require.True(t, yes(t, db, b.take))
		holder := out.holder(key + ":a")
		require.NotZero(t, holder)
		require.Equal(t, holder, out.holder(key+":b"))
		for range 5 {
			require.NotEqual(t, holder, askID(testCtx(t), t, s, db), "a statement that is none of a lock's goes to the pool")
		}
		require.True(t, yes(t, db, a.take), "again")
		require.True(t, yes(t, db, a.release))
		require.False(t, out.try(key+":a"), "it was taken twice")
		require.True(t, yes(t, db, a.release))
		require.True(t, out.try(key+":a"))
		require.False(t, yes(t, db, a.release), "once too often")
		require.False(t, out.try(key+":b"))
		require.True(t, yes(t, db, b.release))
		require.True(t, out.try(key+":b"))
	})
}

func TestTwoGoroutinesHaveSessionsOfTheirOwn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		db.SetMaxOpenConns(1)
		var taken, all sync.WaitGroup
		taken.Add(2)
		holders := make(chan int64, 2)
		for _, name := range []string{key + ":a", key + ":b"} {
			all.Go(func() {
				text := rawSQLFor(t, s, name)
				got := yes(t, db, text.take)
				taken.Done()
				taken.Wait()
				holders <- newOutsider(t, s).holder(name)
				if !got || !yes(t, db, text.release) {
					t.Error("one of two had not its own lock")
				}
			})
		}
		all.Wait()
		require.NotEqual(t, <-holders, <-holders)
		require.True(t, out.try(key+":a"))
		require.True(t, out.try(key+":b"))
	})
}

func TestCloseOfTheDatabaseFreesParkedLocks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		require.True(t, yes(t, db, rawSQLFor(t, s, key+":a").take))
		rows, err := db.QueryContext(testCtx(t), rawSQLFor(t, s, key+":b").take) // parked only after Close, if ever
		require.NoError(t, err)
		joined(func() { require.True(t, yes(t, db, rawSQLFor(t, s, key+":c").take)) })
		require.NoError(t, db.Close())
		require.NoError(t, rows.Close())
		for _, name := range []string{":a", ":b", ":c"} {
			out.free(key+name, promptly)
		}
	})
}

func TestWhatBecomesOfRawLocksIsTold(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		rec, log := &recorder{}, &journal{}
		db, key := open(t, s, driver.WithObserver(rec), driver.WithLogger(log.logger(slog.LevelWarn))), dbtest.Key(t)
		text := rawSQLFor(t, s, key)
		before := time.Now()
		require.True(t, yes(t, db, text.take))
		parked := rec.only(t, driver.EventParked)
		held := heldBy(t, db)
		require.Len(t, held, 1)
		require.True(t, held[0].Parked)
		require.Equal(t, "raw", held[0].Kind)
		require.Equal(t, parked.Key, held[0].Key)
		require.WithinRange(t, held[0].Since, before, time.Now())

		joined(func() { require.False(t, yes(t, db, text.release)) })
		require.True(t, yes(t, db, text.release))
		require.Empty(t, heldBy(t, db))

		tx, err := db.BeginTx(testCtx(t), nil)
		require.NoError(t, err)
		require.True(t, yes(t, tx, text.take))
		require.NoError(t, tx.Commit())
		rec.tells(t, "parked"+parked.Key, "stranger's release"+parked.Key, "left"+parked.Key)
		log.says(t,
			"WARN SQL text released no session lock, since its session does not hold it",
			"WARN session locks were left on a connection")
	})
}
