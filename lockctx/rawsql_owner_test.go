package lockctx_test

import (
	"testing"

	"github.com/stretchr/testify/require"

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
