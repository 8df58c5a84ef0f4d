package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestSavepointsAndRowLocksInInTxAreThoseOfATransaction(t *testing.T) {
	eachFusing(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, key := open(t, view), dbtest.Key(t)
		tab.mustInsert(testCtx(t), tab.bare, 1)
		other, err := view.Open(t).Conn(testCtx(t))
		require.NoError(t, err)
		defer func() { require.NoError(t, other.Close()) }()
		_, err = other.ExecContext(testCtx(t), "SET SESSION innodb_lock_wait_timeout = 1")
		require.NoError(t, err)
		require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
			exec := func(query string) {
				_, err := tx.ExecContext(ctx, query)
				require.NoError(t, err, query)
			}
			exec("SAVEPOINT before_all")
			tab.mustInsert(ctx, tx, 2)
			exec("ROLLBACK TO SAVEPOINT before_all")
			tab.mustInsert(ctx, tx, 3)
			exec("RELEASE SAVEPOINT before_all")
			var v int
			require.NoError(t, tx.QueryRowContext(ctx, "SELECT v FROM t WHERE id = 1 FOR UPDATE").Scan(&v))
			_, err := other.ExecContext(testCtx(t), "UPDATE t SET v = 9 WHERE id = 1")
			require.ErrorContains(t, err, "Lock wait timeout")
			exec("UPDATE t SET v = 7 WHERE id = 1")
			return nil
		}))
		require.Equal(t, []int{1, 3}, tab.ids())
		require.Equal(t, 7, tab.value(1))
		_, err = other.ExecContext(testCtx(t), "UPDATE t SET v = 9 WHERE id = 1")
		require.NoError(t, err, "a row lock outlived InTx")
	})
}

func TestWhatInTxDidBeforeAndAfterDDLIsCommitted(t *testing.T) {
	eachFusing(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, key, out := open(t, view), dbtest.Key(t), newOutsider(t, s)
		require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
			tab.mustInsert(ctx, tx, 1)
			_, err := tx.ExecContext(ctx, "CREATE TABLE u (id INT PRIMARY KEY)")
			require.NoError(t, err)
			require.Equal(t, []int{1}, tab.ids())
			tab.mustInsert(ctx, tx, 2)
			require.False(t, out.try(key))
			return nil
		}))
		require.True(t, out.try(key))
		require.Equal(t, []int{1, 2}, tab.ids())
	})
}

// On MySQL it would commit what InTx has done so far, which it does not in a transaction.
func TestSettingAutocommitInInTxCommitsNothing(t *testing.T) {
	eachFusing(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, mine := open(t, view, driver.WithMaxIdleSessions(1)), errors.New("mine")
		for _, set := range []string{
			"SET autocommit = 1", " /* all */ set @a = 1, Autocommit = ON", "SET/**/@@session.autocommit=1", "SET@@autocommit=1",
			"-- all\n# of it\nSET SESSION autocommit=1", "/*!40000 SET autocommit=1 */",
			"/* all; of it */ SET autocommit=1", "-- all; of it\nSET autocommit=1", "/*!40000 */ SET autocommit=1", "/*!40000 /* all */ SET autocommit=1 */",
		} {
			err := lockctx.InTx(testCtx(t), db, dbtest.Key(t), nil, func(ctx context.Context, tx *sql.Tx) error {
				tab.mustInsert(ctx, tx, 1)
				_, err := tx.ExecContext(ctx, set)
				if s.Kind() == dbtest.MySQL {
					require.ErrorIs(t, err, lockctx.ErrUnsupported, set)
				} else {
					require.NoError(t, err)
				}
				require.NoError(t, tx.QueryRowContext(ctx, "SELECT 'autocommit'").Scan(new(string)))
				return mine
			})
			require.ErrorIs(t, err, mine)
			require.Empty(t, tab.ids())
			require.NoError(t, db.Close()) // its session is taken for one that commits nothing by itself
			db = open(t, view, driver.WithMaxIdleSessions(1))
		}
	})
}

// Table locks that a holder left on the session end with the next transaction, as without a lock.
func TestInTxWorksOnASessionWithTablesLeftLocked(t *testing.T) {
	eachFusing(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		_, err := tab.bare.Exec("CREATE TABLE u (id INT)")
		require.NoError(t, err)
		for id, locks := range []string{
			"lock TABLES u WRITE", "FLUSH TABLES u WITH READ LOCK", "flush/**/LOCAL TABLES u WITH READ LOCK", "FLUSH TABLES u FOR EXPORT", "through Raw",
		} {
			db, key := open(t, view, driver.WithMaxIdleSessions(1)), dbtest.Key(t)
			lk := acquire(t, db, key)
			if locks == "through Raw" {
				c, err := lk.Conn(testCtx(t))
				require.NoError(t, err)
				require.NoError(t, c.Raw(func(dc any) error {
					return rawExec(testCtx(t), dc, "LOCK TABLES u WRITE", "")
				}))
				require.NoError(t, c.Close())
			} else {
				_, err = db.ExecContext(lk.Context(), locks)
				require.NoError(t, err)
			}
			require.NoError(t, lk.Close())
			require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
				return tab.insert(ctx, tx, id)
			}), locks)
			require.Contains(t, tab.ids(), id, locks)
			require.NoError(t, db.Close())
		}
	})
}

// A session that commits nothing by itself is left as it is.
func TestInTxLeavesASessionWithoutAutocommitWithoutIt(t *testing.T) {
	eachFusing(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, key := openDSN(t, withParam(view, view.DSN(), "autocommit=0", ""), driver.WithMaxIdleSessions(1)), dbtest.Key(t)
		for id := range 3 {
			require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
				return tab.insert(ctx, tx, id)
			}))
			require.Contains(t, tab.ids(), id)
			lk := acquire(t, db, key)
			require.Equal(t, "OFF", autocommit(lk.Context(), t, lk.DB()))
			tab.mustInsert(lk.Context(), lk.DB(), -1)
			require.NoError(t, lk.Close())
			require.NotContains(t, tab.ids(), -1)
		}
	})
}

func TestInTxTakesTheIsolationLevelAndReadOnlyOfItsOptions(t *testing.T) {
	levels := map[sql.IsolationLevel]bool{ // whether it sees what others commit meanwhile
		sql.LevelDefault: false, sql.LevelReadUncommitted: true, sql.LevelReadCommitted: true, sql.LevelRepeatableRead: false,
	}
	eachFusing(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, key, id := open(t, view, driver.WithMaxIdleSessions(1)), dbtest.Key(t), 0
		for level, sees := range levels {
			for _, readOnly := range []bool{false, true} {
				count := func(ctx context.Context, tx *sql.Tx) (n int) {
					require.NoError(t, tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM t").Scan(&n))
					return n
				}
				require.NoError(t, lockctx.InTx(testCtx(t), db, key, &sql.TxOptions{Isolation: level, ReadOnly: readOnly}, func(ctx context.Context, tx *sql.Tx) error {
					before := count(ctx, tx)
					id++
					tab.mustInsert(ctx, tab.bare, id)
					require.Equal(t, sees, count(ctx, tx) > before, "%v, read-only %v", level, readOnly)
					id++
					require.Equal(t, readOnly, tab.insert(ctx, tx, id) != nil, "%v, read-only %v", level, readOnly)
					return nil
				}))
			}
		}
	})
}

// The server grants the lock, and begins, while the caller gives up.
func TestInTxThatIsGivenUpWhileItsLockIsGrantedLeavesNothingOpen(t *testing.T) {
	eachFusing(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		relay := view.Relay(t)
		db, key, out := openDSN(t, relay.DSN(), driver.WithMaxIdleSessions(1)), dbtest.Key(t), newOutsider(t, s)
		lk := acquire(t, db, key)
		session := sessionID(t, view, db, lk)
		require.NoError(t, lk.Close())
		relay.SetDelay(50 * time.Millisecond)
		ctx, cancel := context.WithCancel(testCtx(t))
		given := async(func() error {
			return lockctx.InTx(ctx, db, key, nil, func(context.Context, *sql.Tx) error {
				return errors.New("it was not given up")
			})
		})
		require.Eventually(t, func() bool { return out.holder(key) == session }, promptly, time.Millisecond)
		cancel()
		require.ErrorIs(t, within(t, given, promptly, "the end of InTx"), context.Canceled)
		out.free(key, promptly)
		relay.SetDelay(0)
		lk = acquire(t, db, key)
		require.Equal(t, session, sessionID(t, view, db, lk))
		require.Equal(t, "ON", autocommit(lk.Context(), t, lk.DB()))
		tab.mustInsert(lk.Context(), lk.DB(), 1)
		require.Equal(t, []int{1}, tab.ids())
		require.NoError(t, lk.Close())
	})
}
