package lockctx_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// nestings are a lease and a session lock, one under the context of the other, and the context of the inner one.
var nestings = map[string]func(t *testing.T, db *sql.DB) (lease, session *lockctx.Lock, inner context.Context){
	"a session lock under a lease": func(t *testing.T, db *sql.DB) (lease, session *lockctx.Lock, inner context.Context) {
		lease = acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
		session, err := lockctx.Acquire(lease.Context(), db, dbtest.Key(t))
		require.NoError(t, err)
		return lease, session, session.Context()
	},
	"a lease under a session lock": func(t *testing.T, db *sql.DB) (lease, session *lockctx.Lock, inner context.Context) {
		session = acquire(t, db, dbtest.Key(t))
		lease, err := lockctx.Acquire(session.Context(), db, dbtest.Key(t), lockctx.Lease(unrenewed))
		require.NoError(t, err)
		return lease, session, lease.Context()
	},
}

func eachNesting(t *testing.T, fn func(t *testing.T, view *dbtest.Server, tab *table, db *sql.DB, lease, session *lockctx.Lock, inner context.Context)) {
	t.Helper()
	for name, nest := range nestings {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				view, tab := newTable(t, s)
				db := open(t, view)
				lease, session, inner := nest(t, db)
				fn(t, view, tab, db, lease, session, inner)
				_, _ = lease.Close(), session.Close()
				_, _ = session.Close(), lease.Close()
			})
		})
	}
}

// nestedBeginnings are the ways to begin under both.
func nestedBeginnings(db *sql.DB, lease, session *lockctx.Lock, inner context.Context) map[string]func(*testing.T, *sql.TxOptions) (*sql.Tx, error) {
	return map[string]func(*testing.T, *sql.TxOptions) (*sql.Tx, error){
		"the pool":         func(_ *testing.T, o *sql.TxOptions) (*sql.Tx, error) { return db.BeginTx(inner, o) },
		"the lease's DB":   func(_ *testing.T, o *sql.TxOptions) (*sql.Tx, error) { return lease.DB().BeginTx(inner, o) },
		"the session's DB": func(_ *testing.T, o *sql.TxOptions) (*sql.Tx, error) { return session.DB().BeginTx(inner, o) },
		"the lease's Conn": func(t *testing.T, o *sql.TxOptions) (*sql.Tx, error) { return lockConn(t, lease).BeginTx(inner, o) },
		"the session's Conn": func(t *testing.T, o *sql.TxOptions) (*sql.Tx, error) {
			return lockConn(t, session).BeginTx(inner, o)
		},
	}
}

func TestI3_UnderALeaseAndASessionLockATransactionIsOnTheSessionAndFenced(t *testing.T) {
	eachNesting(t, func(t *testing.T, view *dbtest.Server, tab *table, db *sql.DB, lease, session *lockctx.Lock, inner context.Context) {
		id := 0
		want := sessionID(t, view, db, session)
		require.Equal(t, want, askID(inner, t, view, db))
		ways := nestedBeginnings(db, lease, session, inner)
		for name, begin := range ways {
			for _, level := range levels {
				id++
				tx, err := begin(t, &sql.TxOptions{Isolation: level})
				require.NoError(t, err, name)
				require.Equal(t, want, askID(testCtx(t), t, view, tx), name)
				tab.mustInsert(testCtx(t), tx, id)
				require.NoError(t, tx.Commit())
				require.Contains(t, tab.ids(), id)
			}
		}
		tx, err := ways["the pool"](t, nil)
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), tx, 1000)
		newLeaseTable(t, view).steal(lease.Key())
		require.ErrorIs(t, tx.Commit(), lockctx.ErrLost)
		require.NotContains(t, tab.ids(), 1000)
		require.ErrorIs(t, lease.Err(), lockctx.ErrLost)
		if inner == lease.Context() {
			require.NoError(t, session.Err())
			require.NoError(t, inTx(session.Context(), db, func(tx *sql.Tx) error { return tab.insert(testCtx(t), tx, 1001) }),
				"the session is as good as before")
			require.NoError(t, session.Close())
		}
		require.ErrorIs(t, lease.Close(), lockctx.ErrLost)
	})
}

func TestI3_UnderALeaseAndASessionLockALossOfTheSessionFailsTheCommit(t *testing.T) {
	eachNesting(t, func(t *testing.T, view *dbtest.Server, tab *table, db *sql.DB, lease, session *lockctx.Lock, inner context.Context) {
		tx, err := db.BeginTx(inner, nil)
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), tx, 1)
		view.KillSession(t, askID(testCtx(t), t, view, tx))
		requireLost(t, session)
		requireCommitFailed(t, tx.Commit(), session, lockctx.ErrLost)
		require.Empty(t, tab.ids())
		if inner == session.Context() {
			require.NoError(t, lease.Err())
			require.NoError(t, inTx(lease.Context(), db, func(tx *sql.Tx) error { return tab.insert(testCtx(t), tx, 2) }))
			require.NoError(t, lease.Close())
		}
	})
}

func TestI4_UnderALeaseAndASessionLockCloseRollsBackBeforeItReleases(t *testing.T) {
	eachNesting(t, func(t *testing.T, view *dbtest.Server, tab *table, db *sql.DB, lease, session *lockctx.Lock, inner context.Context) {
		out, rows := newOutsider(t, view), newLeaseTable(t, view)
		tx, err := db.BeginTx(inner, nil)
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), tx, 1)
		outer := lease
		if inner == lease.Context() {
			outer = session
		}
		require.ErrorIs(t, outer.Close(), lockctx.ErrReleased, "a transaction was open")
		require.Error(t, tx.Commit())
		require.Empty(t, tab.ids())
		require.NoError(t, tab.insert(testCtx(t), tab.bare, 1), "it was rolled back")
		_, _ = lease.Close(), session.Close()
		out.free(session.Key(), promptly)
		require.False(t, rows.isHeld(lease.Key()))
	})
}

func TestI4_CloseOfAReentryRollsBackWhatIsOpenUnderItAndReleasesNothing(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		db, rows := open(t, view), newLeaseTable(t, view)
		outer := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
		inner, err := lockctx.Acquire(outer.Context(), db, outer.Key(), lockctx.Lease(unrenewed))
		require.NoError(t, err)
		require.Equal(t, outer.Token(), inner.Token())
		under, err := db.BeginTx(outer.Context(), nil)
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), under, 1)
		within, err := db.BeginTx(inner.Context(), nil)
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), within, 2)
		require.ErrorIs(t, inner.Close(), lockctx.ErrReleased)
		requireCommitFailed(t, within.Commit(), inner, lockctx.ErrReleased)
		require.NoError(t, tab.insert(testCtx(t), tab.bare, 2), "it was rolled back")
		require.True(t, rows.isHeld(outer.Key()))
		require.NoError(t, under.Commit())
		require.Equal(t, []int{1, 2}, tab.ids())

		inner, err = lockctx.Acquire(outer.Context(), db, outer.Key(), lockctx.Lease(unrenewed))
		require.NoError(t, err)
		within, err = db.BeginTx(inner.Context(), nil)
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), within, 3)
		require.ErrorIs(t, outer.Close(), lockctx.ErrReleased, "a transaction was open")
		require.ErrorIs(t, inner.Context().Err(), lockctx.ErrReleased)
		requireCommitFailed(t, within.Commit(), inner, lockctx.ErrReleased)
		require.NotContains(t, tab.ids(), 3)
		require.False(t, rows.isHeld(outer.Key()))
		require.ErrorIs(t, inner.Close(), lockctx.ErrReleased)
	})
}
