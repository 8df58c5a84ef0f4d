package lockctx_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

func TestTheReleaseOfALockWhoseSessionWasKilledSaysWhatTheServerSays(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		rec := &recorder{}
		db, out, key := open(t, s, driver.WithObserver(rec)), newOutsider(t, s), dbtest.Key(t)
		text := rawSQLFor(t, s, key)
		for range 3 {
			require.True(t, yes(t, db, text.take))
			s.KillSession(t, out.holder(key))
			out.free(key, promptly)
			var released sql.NullBool
			err := db.QueryRowContext(testCtx(t), text.release).Scan(&released)
			if s.IsMySQL() { // pgx does not look at a connection that was used in the last second
				require.NoError(t, err)
			}
			require.False(t, released.Bool)
			require.True(t, yes(t, db, text.take), "a later take")
			require.False(t, out.try(key))
			require.True(t, yes(t, db, text.release))
			require.True(t, out.try(key))
		}
		require.Contains(t, rec.story(), "lost"+rec.all()[0].Key)
	})
}

func TestALockThatIsLostWithItsConnectionIsTold(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, rec := s.CreateDatabase(t), &recorder{}
		db, out, key := open(t, view, driver.WithObserver(rec)), newOutsider(t, view), dbtest.Key(t)
		require.True(t, yes(t, db, rawSQLFor(t, view, key).take))
		require.True(t, out.take(key+":2"))
		ctx, cancel := context.WithCancel(testCtx(t))
		defer cancel()
		wait := strings.Replace(rawSQLFor(t, view, key+":2").block, ", 2)", ", 30)", 1)
		go func() {
			defer cancel()
			requireWaitsAtServer(t, view)
		}()
		require.Error(t, second(db.ExecContext(ctx, wait)))
		out.free(key, promptly)
		require.Eventually(t, func() bool { return len(rec.story()) == 2 }, promptly, time.Millisecond)
		require.Equal(t, driver.EventLost, rec.all()[1].Kind)
		require.Error(t, rec.all()[1].Err)
	})
}
