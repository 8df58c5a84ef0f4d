package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// successor is an outsider who waits for the lock at the server, so that he is there at the very
// moment when it is free, and looks what the holder has left.
type successor struct {
	t    testing.TB
	done <-chan legacy
}

type legacy struct {
	visible bool // the holder's new row, 1, can be seen, even if it were not committed
	locked  bool // the holder's row lock, on row 0, is still there
	err     error
}

// newSuccessor returns when he waits.
func newSuccessor(t testing.TB, view *dbtest.Server, key string) *successor {
	t.Helper()
	out := newOutsider(t, view)
	wait, lock := "SELECT pg_advisory_lock($1)", any(nil)
	if view.IsMySQL() {
		wait, lock = "SELECT GET_LOCK(?, 60)", lockName(t, key)
		_, err := out.conn.ExecContext(context.Background(), "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
		require.NoError(t, err)
	} else {
		lock = lockID(t, key)
	}
	s := &successor{t: t, done: async(func() (left legacy) {
		ctx := context.Background()
		if _, left.err = out.conn.ExecContext(ctx, wait, lock); left.err != nil {
			return left
		}
		var id int
		left.locked = out.conn.QueryRowContext(ctx, "SELECT id FROM t WHERE id = 0 FOR UPDATE NOWAIT").Scan(&id) != nil
		err := out.conn.QueryRowContext(ctx, "SELECT id FROM t WHERE id = 1").Scan(&id)
		left.visible = err == nil
		if !left.visible && !errors.Is(err, sql.ErrNoRows) {
			left.err = err
		}
		out.release(key)
		return left
	})}
	requireWaitsAtServer(t, view)
	return s
}

func (s *successor) found() legacy {
	s.t.Helper()
	return within(s.t, s.done, promptly, "the grant to the successor")
}

// work inserts row 1 and locks row 0.
func work(ctx context.Context, q asker) error {
	_, err := q.ExecContext(ctx, "INSERT INTO t VALUES (1, 0)")
	if err == nil {
		_, err = q.ExecContext(ctx, "UPDATE t SET v = v + 1 WHERE id = 0")
	}
	return err
}

// underWork runs do with a transaction open under lk that has done work, a successor at the server, and
// then checks that he found nothing of it.
func underWork(t *testing.T, begin func(*sql.DB, *lockctx.Lock) (*sql.Tx, error), end func(*testing.T, *sql.DB, *lockctx.Lock, *sql.Tx)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		tab.mustInsert(testCtx(t), tab.bare, 0)
		db := open(t, view)
		lk := acquire(t, db, dbtest.Key(t))
		tx, err := begin(db, lk)
		require.NoError(t, err)
		require.NoError(t, work(testCtx(t), tx))
		next := newSuccessor(t, view, lk.Key())
		end(t, db, lk, tx)
		require.Equal(t, legacy{}, next.found())
		requireCommitFailed(t, tx.Commit(), lk, lockctx.ErrReleased)
		require.Equal(t, []int{0}, tab.ids())
	})
}

func onPool(db *sql.DB, lk *lockctx.Lock) (*sql.Tx, error) { return db.BeginTx(lk.Context(), nil) }

func onLockDB(_ *sql.DB, lk *lockctx.Lock) (*sql.Tx, error) {
	return lk.DB().BeginTx(context.WithoutCancel(lk.Context()), nil) // nothing but Close ends it
}

// closeUnderWork closes lk and checks what Close says of the open transaction.
func closeUnderWork(t *testing.T, _ *sql.DB, lk *lockctx.Lock, _ *sql.Tx) {
	err := lk.Close()
	require.ErrorIs(t, err, lockctx.ErrReleased)
	require.ErrorContains(t, err, "rolled back")
	require.NotErrorIs(t, err, lockctx.ErrLost)
	require.Equal(t, err, lk.Close(), "further calls return the result of the first")
}

func TestI4_CloseRollsBackAnOpenTransactionBeforeItReleases(t *testing.T) {
	t.Run("on the pool", func(t *testing.T) { underWork(t, onPool, closeUnderWork) })
	t.Run("on the lock's DB", func(t *testing.T) { underWork(t, onLockDB, closeUnderWork) })
}

func TestI4_CloseRollsBackAlsoUnderAnOpenResultSet(t *testing.T) {
	underWork(t, onPool, func(t *testing.T, db *sql.DB, lk *lockctx.Lock, tx *sql.Tx) {
		rows, err := tx.Query("SELECT id FROM t")
		require.NoError(t, err)
		defer func() { _ = rows.Close() }()
		require.True(t, rows.Next())
		closeUnderWork(t, db, lk, tx)
		for rows.Next() { //nolint:revive // to its end
		}
		require.ErrorIs(t, rows.Err(), lockctx.ErrReleased)
	})
}

func TestI4_DBCloseRollsBackAnOpenTransactionBeforeItReleases(t *testing.T) {
	underWork(t, onPool, func(t *testing.T, db *sql.DB, lk *lockctx.Lock, _ *sql.Tx) {
		closed := async(db.Close)
		within(t, lk.Context().Done(), promptly, "the end of the lock's context")
		require.ErrorIs(t, lk.Context().Err(), lockctx.ErrReleased)
		require.NoError(t, within(t, closed, promptly, "the end of db.Close"))
	})
}

func TestI4_TheEndOfAcquiresContextRollsBackAndDoesNotRelease(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		tab.mustInsert(testCtx(t), tab.bare, 0)
		db, out := open(t, view), newOutsider(t, view)
		ctx, cancel := context.WithCancel(testCtx(t))
		lk, err := lockctx.Acquire(ctx, db, dbtest.Key(t))
		require.NoError(t, err)
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, work(testCtx(t), tx))
		next := newSuccessor(t, view, lk.Key())
		cancel()
		within(t, lk.Context().Done(), promptly, "the end of the lock's context")
		require.Equal(t, context.Canceled, lk.Context().Err(), "the parent's own")
		require.NoError(t, lk.Err())
		require.Error(t, tx.Commit())
		require.False(t, out.try(lk.Key()), "the end of ctx is no release")
		tab.mustInsert(context.WithoutCancel(lk.Context()), db, 2)
		require.NoError(t, lk.Close())
		require.Equal(t, legacy{}, next.found())
		require.Equal(t, []int{0, 2}, tab.ids())
	})
}

func TestI4_InTxReleasesAfterItsCommit(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		tab.mustInsert(testCtx(t), tab.bare, 0)
		var next *successor
		db, key := open(t, view), dbtest.Key(t)
		require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
			next = newSuccessor(t, view, key)
			return work(ctx, tx)
		}))
		require.Equal(t, legacy{visible: true}, next.found())
		require.Equal(t, []int{0, 1}, tab.ids())
	})
}

func TestI4_InTxRollsBackBeforeItReleasesWhenItsFunctionFails(t *testing.T) {
	failure := errors.New("a failure")
	for name, fail := range map[string]func() error{
		"an error": func() error { return failure },
		"a panic":  func() error { panic(failure) },
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				view, tab := newTable(t, s)
				tab.mustInsert(testCtx(t), tab.bare, 0)
				var next *successor
				db, key := open(t, view), dbtest.Key(t)
				err := func() (err error) {
					defer func() {
						if p := recover(); p != nil {
							err = p.(error)
						}
					}()
					return lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
						next = newSuccessor(t, view, key)
						return errors.Join(work(ctx, tx), fail())
					})
				}()
				require.ErrorIs(t, err, failure)
				require.NotErrorIs(t, err, lockctx.ErrReleased, "the rollback is as it should be")
				require.Equal(t, legacy{}, next.found())
				require.Equal(t, []int{0}, tab.ids())
			})
		})
	}
}

func TestI4_DoTellsOfATransactionThatItsFunctionLeftOpen(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		tab.mustInsert(testCtx(t), tab.bare, 0)
		var next *successor
		db, key := open(t, view), dbtest.Key(t)
		err := lockctx.Do(testCtx(t), db, key, func(ctx context.Context) error {
			next = newSuccessor(t, view, key)
			tx, err := db.BeginTx(ctx, nil)
			if err == nil {
				err = work(ctx, tx)
			}
			return err
		})
		require.ErrorIs(t, err, lockctx.ErrReleased)
		require.ErrorContains(t, err, "rolled back")
		require.Equal(t, legacy{}, next.found())
		require.Equal(t, []int{0}, tab.ids())
	})
}

func TestI4_ATransactionBegunAsTextIsRolledBackBeforeTheRelease(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		tab.mustInsert(testCtx(t), tab.bare, 0)
		db := open(t, view)
		lk := acquire(t, db, dbtest.Key(t))
		_, err := db.ExecContext(lk.Context(), "BEGIN")
		require.NoError(t, err)
		require.NoError(t, work(lk.Context(), db))
		next := newSuccessor(t, view, lk.Key())
		err = lk.Close()
		if s.IsMySQL() { // which does not say whether one was open
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "rolled back")
		}
		require.Equal(t, legacy{}, next.found())
		require.Equal(t, []int{0}, tab.ids())
	})
}
