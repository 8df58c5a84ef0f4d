package lockctx_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

func TestC01_RawSQLReleasesOnTheSessionThatTookTheLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		db.SetMaxOpenConns(4)
		text := rawSQLFor(t, s, key)
		busy := async(func() error { return second(db.ExecContext(testCtx(t), sleepQuery(s, 0.5))) })
		for range 20 {
			require.True(t, yes(t, db, text.take))
			c, err := db.Conn(testCtx(t)) // the one that came back last
			require.NoError(t, err)
			require.NotEqual(t, out.holder(key), askID(testCtx(t), t, s, c), "the lock's connection was in the pool")
			require.True(t, yes(t, db, text.release))
			require.True(t, out.try(key))
			require.NoError(t, c.Close())
		}
		require.NoError(t, <-busy)
	})
}

func TestC03_CloseOfAConnReleasesItsRawLocksAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		rec := &recorder{}
		db, out, key := open(t, s, driver.WithObserver(rec)), newOutsider(t, s), dbtest.Key(t)
		c, err := db.Conn(testCtx(t))
		require.NoError(t, err)
		require.True(t, yes(t, c, rawSQLFor(t, s, key).take))
		require.True(t, yes(t, c, rawSQLFor(t, s, key).take))
		require.True(t, yes(t, c, rawSQLFor(t, s, key+":2").take))
		require.False(t, out.try(key))
		require.NoError(t, c.Close())
		require.True(t, out.try(key), "the pool has it")
		require.True(t, out.try(key+":2"), "the pool has it")
		require.Len(t, rec.only(t, driver.EventLeft).Keys, 2)
		require.Equal(t, 1, db.Stats().Idle)
	})
}

func TestC06_TheEndOfATransactionReleasesItsRawLocks(t *testing.T) {
	ends := map[string]func(*testing.T, *sql.Tx){
		"commit":   func(t *testing.T, tx *sql.Tx) { require.NoError(t, tx.Commit()) },
		"rollback": func(t *testing.T, tx *sql.Tx) { require.NoError(t, tx.Rollback()) },
		"panic": func(t *testing.T, tx *sql.Tx) {
			defer func() { require.NotNil(t, recover()) }()
			defer func() { _ = tx.Rollback() }()
			panic("between")
		},
	}
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for name, end := range ends {
			rec := &recorder{}
			view, tab := newTable(t, s)
			db, out, key := open(t, view, driver.WithObserver(rec)), newOutsider(t, view), dbtest.Key(t)
			tx, err := db.BeginTx(testCtx(t), nil)
			require.NoError(t, err)
			require.True(t, yes(t, tx, rawSQLFor(t, view, key).take))
			tab.mustInsert(testCtx(t), tx, 1)
			require.False(t, out.try(key))
			end(t, tx)
			require.True(t, out.try(key), name)
			require.ErrorContains(t, rec.only(t, driver.EventLeft).Err, "released", name)
			require.False(t, yes(t, db, rawSQLFor(t, view, key).release), "%s: there is nothing to release", name)
			rec.only(t, driver.EventStranger)
			require.Equal(t, name == "commit", len(tab.ids()) == 1)
		}
	})
}

func TestC07_PoolHousekeepingDoesNotTouchAParkedSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for name, set := range map[string]func(*sql.DB){
			"no idle connections": func(db *sql.DB) { db.SetMaxIdleConns(0) },
			"short lives":         func(db *sql.DB) { db.SetConnMaxLifetime(200 * time.Millisecond) },
			"short idle times":    func(db *sql.DB) { db.SetConnMaxIdleTime(100 * time.Millisecond) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
				set(db)
				require.True(t, yes(t, db, rawSQLFor(t, s, key).take))
				holder := out.holder(key)
				require.NotZero(t, holder)
				for start := time.Now(); time.Since(start) < 2*time.Second; time.Sleep(100 * time.Millisecond) {
					require.NoError(t, db.PingContext(testCtx(t))) // so that the pool has something to tidy
				}
				require.Equal(t, holder, out.holder(key))
				require.True(t, yes(t, db, rawSQLFor(t, s, key).release))
				require.True(t, out.try(key))
			})
		}
	})
}

func TestC20_ARawLockThatIsLostIsNotTakenForHeld(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		rec := &recorder{}
		db, out, key := open(t, s, driver.WithObserver(rec)), newOutsider(t, s), dbtest.Key(t)
		text := rawSQLFor(t, s, key)
		require.True(t, yes(t, db, text.take))
		s.KillSession(t, out.holder(key))
		out.free(key, promptly)
		require.NoError(t, second(db.ExecContext(testCtx(t), "SELECT 1")), "it is not on the lock's session")
		require.True(t, out.take(key))
		var got sql.NullBool
		err := db.QueryRowContext(testCtx(t), text.take).Scan(&got) // as if it held it still
		require.True(t, err != nil || !got.Bool)
		require.False(t, yes(t, db, text.release))
		require.False(t, out.try(key+":other") && out.holder(key) == 0, "it freed another client's lock")
		out.release(key)
		require.Eventually(t, func() bool {
			for _, e := range rec.all() {
				if e.Kind == driver.EventLost {
					return true
				}
			}
			return false
		}, promptly, time.Millisecond, "nobody was told")
	})
}

func TestC20_ATransactionThatLostItsSessionDoesNotGoOnElsewhere(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, out, key := open(t, view), newOutsider(t, view), dbtest.Key(t)
		tx, err := db.BeginTx(testCtx(t), nil)
		require.NoError(t, err)
		require.True(t, yes(t, tx, rawSQLFor(t, view, key).take))
		view.KillSession(t, out.holder(key))
		out.free(key, promptly)
		require.Error(t, tab.insert(testCtx(t), tx, 1))
		require.Error(t, tx.Commit())
		require.Empty(t, tab.ids())
	})
}
