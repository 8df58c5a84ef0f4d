package lockctx_test

import (
	"database/sql"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

func TestAnOrphansLockIsNotGrantedToOneWhoReleasesAnother(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		orphans, other := rawSQLFor(t, s, key), rawSQLFor(t, s, key+"-other")
		joined(func() { require.True(t, yes(t, db, orphans.take)) })
		var taken, released sql.NullBool
		text := orphans.take + ", " + strings.TrimPrefix(other.release, "SELECT ")
		require.NoError(t, db.QueryRowContext(testCtx(t), text).Scan(&taken, &released))
		require.False(t, taken.Bool)
		require.False(t, released.Bool)
		require.True(t, yes(t, db, orphans.release))
		require.True(t, out.try(key))
		require.Empty(t, heldRaw(t, db))
	})
}

func TestAnOrphansLockIsReleasedAsFastAsOneAsks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		text := rawSQLFor(t, s, key)
		const times = 30
		joined(func() {
			for range times {
				require.True(t, yes(t, db, text.take))
			}
		})
		require.Eventually(t, func() bool { return yes(t, db, text.release) }, promptly, 1) // goroutines may just have been counted
		for range times - 1 {
			require.False(t, out.try(key))
			joined(func() { require.True(t, yes(t, db, text.release)) })
		}
		require.True(t, out.try(key))
		require.Empty(t, heldRaw(t, db))
	})
}

func TestAnOrphansLockIsReleasedThoughGoroutinesHaveJustBeenCountedForAnothers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		first, next := rawSQLFor(t, s, key), rawSQLFor(t, s, key+"-next")
		for _, text := range []string{next.take, first.take} {
			joined(func() { require.True(t, yes(t, db, text)) })
		}
		end := make(chan struct{})
		var many sync.WaitGroup
		defer many.Wait()
		defer close(end)
		for range 10_000 { // so many take long to count, and so it is not done again soon
			many.Go(func() { <-end })
		}
		require.Eventually(t, func() bool { return yes(t, db, first.release) }, promptly, 1)
		require.True(t, yes(t, db, next.release))
		require.True(t, out.try(key))
		require.True(t, out.try(key+"-next"))
	})
}
