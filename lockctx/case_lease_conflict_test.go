package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// code is the server's code for the error, as far as errors.As finds one.
func code(err error) string {
	var m *mysql.MySQLError
	if errors.As(err, &m) {
		return fmt.Sprint(m.Number)
	}
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return p.Code
	}
	return fmt.Sprintf("none, in %v", err)
}

// fenced is a transaction under a lease with row 1 in it, and an outsider's transaction.
type fenced struct {
	t     *testing.T
	view  *dbtest.Server
	tab   *table
	rows  *leaseTable
	lk    *lockctx.Lock
	tx    *sql.Tx
	other *sql.Tx
}

func newFenced(t *testing.T, view *dbtest.Server, tab *table, db *sql.DB, level sql.IsolationLevel) *fenced {
	t.Helper()
	f := &fenced{t: t, view: view, tab: tab, rows: newLeaseTable(t, view)}
	f.lk = acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
	var err error
	f.tx, err = db.BeginTx(f.lk.Context(), &sql.TxOptions{Isolation: level})
	require.NoError(t, err)
	tab.mustInsert(testCtx(t), f.tx, 1)
	f.other, err = f.rows.bare.Begin()
	require.NoError(t, err)
	return f
}

// exec runs in tx the statement of two that is the server's, unless it is empty.
func (f *fenced) exec(tx *sql.Tx, mysql, postgres string) {
	f.t.Helper()
	query := mysql
	if !f.view.IsMySQL() {
		query = postgres
	}
	if query != "" {
		_, err := tx.Exec(query)
		require.NoError(f.t, err, query)
	}
}

// theRow is an update of the lease's row that leaves it as it is.
func (f *fenced) theRow() string {
	return "UPDATE lockdb_lease SET token = token WHERE lease_key = '" + lockName(f.t, f.lk.Key()) + "'"
}

// requireConflict checks that Commit returns the server's error, and that otherwise nothing has happened.
func (f *fenced) requireConflict(want string) {
	f.t.Helper()
	err := f.tx.Commit()
	require.Equal(f.t, want, code(err))
	require.NotErrorIs(f.t, err, lockctx.ErrLost)
	require.NotErrorIs(f.t, err, lockctx.ErrOutcomeUnknown)
	_ = f.other.Rollback()
	require.NoError(f.t, f.lk.Err())
	require.NotContains(f.t, f.tab.ids(), 1)
	require.NoError(f.t, f.tab.insert(testCtx(f.t), f.tab.bare, 1), "its row locks are gone")
	_, err = f.tab.bare.Exec("DELETE FROM t")
	require.NoError(f.t, err)
	require.NoError(f.t, f.lk.Close(), "the lease is held until then")
	require.False(f.t, f.rows.isHeld(f.lk.Key()))
}

// eachConflict runs fn on one connection of a pool, and looks whether that is still good for a transaction.
func eachConflict(t *testing.T, fn func(t *testing.T, view *dbtest.Server, tab *table, db *sql.DB)) {
	t.Helper()
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		db := open(t, view)
		db.SetMaxOpenConns(1)
		fn(t, view, tab, db)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
		require.NoError(t, inTx(lk.Context(), db, func(tx *sql.Tx) error { return tab.insert(testCtx(t), tx, 2) }))
		require.NoError(t, lk.Close())
		require.Equal(t, []int{2}, tab.ids())
	})
}

func TestAFenceThatWaitsTooLongForTheRowIsAConflictAndNoLoss(t *testing.T) {
	eachConflict(t, func(t *testing.T, view *dbtest.Server, tab *table, db *sql.DB) {
		f := newFenced(t, view, tab, db, sql.LevelDefault)
		f.exec(f.other, f.theRow(), "SELECT 1 FROM lockdb_lease FOR UPDATE")
		f.exec(f.tx, "SET SESSION innodb_lock_wait_timeout = 1", "SET LOCAL lock_timeout = '200ms'")
		if view.IsMySQL() {
			f.requireConflict("1205")
		} else {
			f.requireConflict("55P03")
		}
	})
}

func TestAFenceThatIsADeadlocksVictimIsAConflictAndNoLoss(t *testing.T) {
	eachConflict(t, func(t *testing.T, view *dbtest.Server, tab *table, db *sql.DB) {
		tab.mustInsert(testCtx(t), tab.bare, 3)
		f := newFenced(t, view, tab, db, sql.LevelDefault)
		f.exec(f.tx, "UPDATE t SET v = 1 WHERE id = 3", "UPDATE t SET v = 1 WHERE id = 3")
		// The victim is on MySQL who has done less, and on PostgreSQL who is the first to look, after a time.
		f.exec(f.other, "INSERT INTO t SELECT 1000 + SEQ.n, 0 FROM (WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 300) SELECT n FROM s) SEQ", "")
		f.exec(f.tx, "", "SET LOCAL deadlock_timeout = '10ms'")
		f.exec(f.other, "", "SET LOCAL deadlock_timeout = '1min'")
		f.exec(f.other, f.theRow(), "SELECT 1 FROM lockdb_lease FOR UPDATE")
		waits := async(func() error {
			_, err := f.other.Exec("UPDATE t SET v = 2 WHERE id = 3")
			return err
		})
		require.Eventually(t, func() bool { return waitsForARow(t, view) }, promptly, 5*time.Millisecond)
		want := "1213"
		if !view.IsMySQL() {
			want = "40P01"
		}
		err := f.tx.Commit()
		require.Equal(t, want, code(err))
		require.NotErrorIs(t, err, lockctx.ErrLost)
		require.NoError(t, within(t, waits, promptly, "the survivor"))
		require.NoError(t, f.other.Rollback())
		require.NoError(t, f.lk.Close())
		require.Equal(t, []int{3}, tab.ids())
		_, err = tab.bare.Exec("DELETE FROM t")
		require.NoError(t, err)
	})
}

// waitsForARow tells whether somebody in the view's database waits for a row.
func waitsForARow(t *testing.T, view *dbtest.Server) (waits bool) {
	t.Helper()
	for _, s := range view.Sessions(t) {
		if s.Query == "UPDATE t SET v = 2 WHERE id = 3" && (view.IsMySQL() && s.Command == "Query" || s.State == "transactionid") {
			return true
		}
	}
	return false
}

// The row has changed since the snapshot, and is the lease's nevertheless.
func TestAFenceWhoseSnapshotIsTooOldIsAConflictAndNoLoss(t *testing.T) {
	eachConflict(t, func(t *testing.T, view *dbtest.Server, tab *table, db *sql.DB) {
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
			f := newFenced(t, view, tab, db, level)
			row := " WHERE lease_key = '" + lockName(t, f.lk.Key()) + "'"
			f.rows.exec("UPDATE lockdb_lease SET token = token + 1"+row, "UPDATE lockdb_lease SET token = token + 1"+row)
			f.rows.exec("UPDATE lockdb_lease SET token = token - 1"+row, "UPDATE lockdb_lease SET token = token - 1"+row)
			if !view.IsMySQL() {
				f.requireConflict("40001")
				continue
			}
			require.NoError(t, f.tx.Commit(), "it reads the row as it is")
			_ = f.other.Rollback()
			require.NoError(t, f.lk.Close())
			_, err := tab.bare.Exec("DELETE FROM t")
			require.NoError(t, err)
		}
	})
}

// A loss can look like a conflict: then the row tells.
func TestAConflictAtTheFenceThatIsALossIsErrLost(t *testing.T) {
	eachConflict(t, func(t *testing.T, view *dbtest.Server, tab *table, db *sql.DB) {
		for _, level := range levels {
			f := newFenced(t, view, tab, db, level)
			f.rows.steal(f.lk.Key())
			err := f.tx.Commit()
			require.ErrorIs(t, err, lockctx.ErrLost)
			if level >= sql.LevelRepeatableRead && !view.IsMySQL() {
				require.Equal(t, "40001", code(err))
			}
			_ = f.other.Rollback()
			require.ErrorIs(t, f.lk.Close(), lockctx.ErrLost)
		}
		require.Empty(t, tab.ids())
	})
}

func TestAFenceThatIsCutShortByATimeoutIsNoLoss(t *testing.T) {
	eachConflict(t, func(t *testing.T, view *dbtest.Server, tab *table, db *sql.DB) {
		if view.IsMySQL() { // it has a time limit for reads only
			return
		}
		f := newFenced(t, view, tab, db, sql.LevelDefault)
		f.exec(f.other, "", "SELECT 1 FROM lockdb_lease FOR UPDATE")
		f.exec(f.tx, "", "SET LOCAL statement_timeout = '200ms'")
		f.requireConflict("57014")
	})
}

func TestACommitThatTheServerRefusesUnderALeaseIsNoLoss(t *testing.T) {
	eachConflict(t, func(t *testing.T, view *dbtest.Server, tab *table, db *sql.DB) {
		if view.IsMySQL() { // it checks its constraints at each statement
			return
		}
		_, err := tab.bare.Exec("CREATE TABLE child (of BIGINT REFERENCES t DEFERRABLE INITIALLY DEFERRED)")
		require.NoError(t, err)
		for _, level := range levels {
			f := newFenced(t, view, tab, db, level)
			f.exec(f.tx, "", "INSERT INTO child VALUES (99)")
			f.requireConflict("23503")
		}
	})
}

func TestATransactionThatTheServerAbortedUnderALeaseSaysWhatTheDriverSays(t *testing.T) {
	eachConflict(t, func(t *testing.T, view *dbtest.Server, tab *table, db *sql.DB) {
		if view.IsMySQL() {
			return
		}
		bare := view.Open(t)
		commit := func(ctx context.Context, db *sql.DB) error {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			require.NoError(t, tab.insert(ctx, tx, 1))
			_, err = tx.Exec("SELECT 1 / 0")
			require.Error(t, err)
			return tx.Commit()
		}
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
		want, got := commit(testCtx(t), bare), commit(lk.Context(), db)
		require.Error(t, want)
		require.Equal(t, want, got)
		newLeaseTable(t, view).steal(lk.Key())
		require.Equal(t, want, commit(lk.Context(), db), "nothing is lost by it")
		require.Empty(t, tab.ids())
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}
