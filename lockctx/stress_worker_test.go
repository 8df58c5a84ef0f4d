package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func (st *stress) keyOf(row int) string { return fmt.Sprint(st.key, row) }

// inTx increments the row in a transaction of InTx.
func (st *stress) inTx(ctx context.Context, _ *rand.Rand, db *sql.DB, row int) error {
	return lockctx.InTx(ctx, db, st.keyOf(row), nil, func(ctx context.Context, tx *sql.Tx) error {
		return increment(ctx, tx, row)
	})
}

// byHand does so in a transaction on the pool or on the lock's DB.
func (st *stress) byHand(ctx context.Context, r *rand.Rand, db *sql.DB, row int) error {
	lk, tx, err := st.begin(ctx, r, db, row)
	if err != nil {
		return err
	}
	defer func() { _ = lk.Close() }()
	return incrementAndCommit(lk.Context(), tx, row)
}

// closedEarly closes the lock, thrice at once, at any moment of its work.
func (st *stress) closedEarly(ctx context.Context, r *rand.Rand, db *sql.DB, row int) error {
	lk, tx, err := st.begin(ctx, r, db, row)
	if err != nil {
		return err
	}
	pause := time.Duration(r.IntN(2000)) * time.Microsecond
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			time.Sleep(pause)
			_ = lk.Close()
		})
	}
	defer wg.Wait()
	return incrementAndCommit(lk.Context(), tx, row)
}

func (st *stress) begin(ctx context.Context, r *rand.Rand, db *sql.DB, row int) (*lockctx.Lock, *sql.Tx, error) {
	lk, err := lockctx.Acquire(ctx, db, st.keyOf(row))
	if err != nil {
		return nil, nil, err
	}
	if r.IntN(2) == 0 {
		db = lk.DB()
	}
	tx, err := db.BeginTx(lk.Context(), nil)
	if err != nil {
		_ = lk.Close()
		return nil, nil, err
	}
	return lk, tx, nil
}

func incrementAndCommit(ctx context.Context, tx *sql.Tx, row int) error {
	if err := increment(ctx, tx, row); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// bySingleStatements increments outside of a transaction: what becomes of the writing one when its
// session ends, nobody knows.
func (st *stress) bySingleStatements(ctx context.Context, _ *rand.Rand, db *sql.DB, row int) error {
	return lockctx.Do(ctx, db, st.keyOf(row), func(ctx context.Context) error {
		var v int
		lk, _ := lockctx.FromContext(ctx)
		if err := lk.DB().QueryRowContext(ctx, fmt.Sprintf("SELECT v FROM t WHERE id = %d", row)).Scan(&v); err != nil {
			return err
		}
		_, err := lk.DB().ExecContext(ctx, fmt.Sprintf("UPDATE t SET v = %d WHERE id = %d", v+1, row))
		if err != nil {
			err = errors.Join(err, lockctx.ErrOutcomeUnknown)
		}
		return err
	})
}

// expected fails the test for errors that no trouble of this test accounts for.
func (st *stress) expected(err error) {
	for _, not := range []error{
		lockctx.ErrBusy, lockctx.ErrUnsupported, lockctx.ErrClosed, lockctx.ErrDeadlock, lockctx.ErrNotAcquired,
	} {
		if errors.Is(err, not) {
			st.t.Errorf("an error that nothing accounts for: %v", err)
		}
	}
}

// kill ends random sessions, those of the pools too.
func (st *stress) kill(stop <-chan struct{}) {
	db, err := sql.Open(st.view.Driver(), st.view.DSN())
	if err != nil {
		st.t.Error(err)
		return
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	list, kill := "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id NOT IN (CONNECTION_ID(), %d)", "KILL %d"
	if !st.view.IsMySQL() {
		list, kill = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid NOT IN (pg_backend_pid(), %d)", "SELECT pg_terminate_backend(%d)"
	}
	r := st.rand(-1)
	for st.pause(r, 60*time.Millisecond, stop) {
		var ids []int64
		rows, err := db.Query(fmt.Sprintf(list, st.spared))
		if err != nil {
			st.t.Error(err)
			return
		}
		for rows.Next() {
			var id int64
			_ = rows.Scan(&id)
			ids = append(ids, id)
		}
		_ = rows.Close()
		if len(ids) > 0 {
			_, _ = db.Exec(fmt.Sprintf(kill, ids[r.IntN(len(ids))])) // it may have ended by itself
		}
	}
}

// reset breaks the network, and makes it slow at times.
func (st *stress) reset(relay *dbtest.Relay, stop <-chan struct{}) {
	r := st.rand(-2)
	for st.pause(r, 200*time.Millisecond, stop) {
		relay.SetDelay(time.Duration(r.IntN(3)) * time.Millisecond)
		if r.IntN(2) == 0 {
			relay.Reset()
		}
	}
}

func (st *stress) pause(r *rand.Rand, atMost time.Duration, stop <-chan struct{}) bool {
	select {
	case <-stop:
		return false
	case <-time.After(time.Duration(r.Int64N(int64(atMost)))):
		return true
	}
}

// check compares the counters with the rows: what was acknowledged is there, once.
func (st *stress) check(tab *table) {
	st.t.Helper()
	for row := range st.counters {
		c, v := &st.counters[row], int64(tab.value(row))
		done, unknown := c.done.Load(), c.unknown.Load()
		st.t.Logf("row %d: %d done, %d unknown, %d failed, value %d", row, done, unknown, c.failed.Load(), v)
		require.GreaterOrEqual(st.t, v, done, "an update was lost")
		require.LessOrEqual(st.t, v, done+unknown, "an update that was said to have failed was made")
		require.NotZero(st.t, done)
	}
}
