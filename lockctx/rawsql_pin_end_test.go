package lockctx_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestThePinOfAKilledSessionIsLost(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		db, out, key := open(t, view), newOutsider(t, view), dbtest.Key(t)
		text, p := rawSQLFor(t, view, key), pin(t, db)
		require.True(t, yesUnder(p.Context(), t, db, text.take))
		tx, err := db.BeginTx(p.Context(), nil)
		require.NoError(t, err)
		tab.mustInsert(p.Context(), tx, 1)
		view.KillSession(t, out.holder(key))
		select {
		case <-p.Context().Done():
		case <-time.After(promptly):
			require.Fail(t, "the context did not end")
		}
		require.ErrorIs(t, context.Cause(p.Context()), lockctx.ErrLost)
		require.ErrorIs(t, p.Err(), lockctx.ErrLost)
		require.Error(t, tx.Commit())
		require.ErrorIs(t, second(db.ExecContext(p.Context(), text.take)), lockctx.ErrLost)
		_, err = p.Conn(testCtx(t))
		require.ErrorIs(t, err, lockctx.ErrLost)
		require.ErrorIs(t, p.Close(), lockctx.ErrLost)
		out.free(key, promptly) // the server closes the socket first
		require.Empty(t, tab.ids())
		require.NoError(t, pin(t, db).Close(), "the next one is as good as new")
	})
}

func TestCloseOfAPinRollsBackBeforeItReleases(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		db, out, key := open(t, view), newOutsider(t, view), dbtest.Key(t)
		text, p := rawSQLFor(t, view, key), pin(t, db)
		tx, err := db.BeginTx(p.Context(), nil)
		require.NoError(t, err)
		require.True(t, yes(t, tx, text.take))
		tab.mustInsert(testCtx(t), tx, 1)
		require.ErrorIs(t, p.Close(), lockctx.ErrReleased, "it says that it rolled back")
		require.True(t, out.try(key))
		require.Error(t, tx.Commit())
		require.Empty(t, tab.ids())
		tab.mustInsert(testCtx(t), tab.bare, 1)
		require.ErrorIs(t, p.Close(), lockctx.ErrReleased, "again")

		p = pin(t, db)
		require.True(t, yesUnder(p.Context(), t, db, text.take))
		rows, err := db.QueryContext(p.Context(), "SELECT id FROM t")
		require.NoError(t, err)
		defer rows.Close()
		_ = p.Close() // with a result set open
		require.True(t, out.try(key))
		require.ErrorIs(t, p.Context().Err(), lockctx.ErrReleased)
	})
}

func TestCloseOfAPinReleasesWhatTheTextsDidNotShow(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		key := dbtest.Key(t)
		view := s.CreateDatabase(t)
		take := rawSQLFor(t, view, key).take[len("SELECT "):]
		create := "CREATE FUNCTION takes() RETURNS boolean LANGUAGE sql AS $$ SELECT " + take + " $$"
		if s.IsMySQL() {
			create = "CREATE FUNCTION takes() RETURNS int READS SQL DATA RETURN " + take
		}
		require.NoError(t, second(view.Open(t).Exec(create)))
		db, out := open(t, view, driver.WithMaxSessions(1)), newOutsider(t, view)
		for range 2 {
			p := pin(t, db)
			require.True(t, yesUnder(p.Context(), t, db, "SELECT takes()"))
			require.False(t, out.try(key))
			require.NoError(t, p.Close())
			require.True(t, out.try(key))
		}
	})
}

func TestTheEndOfAPinsParentReleasesNothingUntilClose(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		ctx, cancel := context.WithCancel(testCtx(t))
		_, err := lockctx.Pin(cancelled(), db)
		require.ErrorIs(t, err, context.Canceled)
		p, err := lockctx.Pin(ctx, db)
		require.NoError(t, err)
		require.True(t, yesUnder(p.Context(), t, db, rawSQLFor(t, s, key).take))
		cancel()
		<-p.Context().Done()
		require.ErrorIs(t, second(db.ExecContext(p.Context(), "SELECT 1")), context.Canceled)
		require.NoError(t, p.Err())
		require.False(t, out.try(key))
		require.NoError(t, p.Close())
		require.True(t, out.try(key))
	})
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestDBCloseEndsAPin(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		c, err := driver.OpenConnector(s.DSN())
		require.NoError(t, err)
		db, out, key := sql.OpenDB(c), newOutsider(t, s), dbtest.Key(t)
		p := pin(t, db)
		require.True(t, yesUnder(p.Context(), t, db, rawSQLFor(t, s, key).take))
		require.NoError(t, db.Close())
		require.True(t, out.try(key))
		require.ErrorIs(t, p.Context().Err(), lockctx.ErrReleased)
		require.ErrorIs(t, p.Err(), lockctx.ErrClosed)
		err = p.Close()
		require.ErrorIs(t, err, lockctx.ErrClosed)
		_, err = lockctx.Pin(testCtx(t), db)
		require.ErrorIs(t, err, lockctx.ErrClosed)
	})
}
