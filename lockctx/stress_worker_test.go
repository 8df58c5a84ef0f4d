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

	"github.com/lockdb/lockdb/lockctx"
)

// attempts are the ways to increment; those that end in a transaction count more.
var attempts = []struct {
	name string
	run  func(*stress, context.Context, *rand.Rand, *sql.DB, attempt) error
}{
	{"InTx", (*stress).inTx},
	{"InTx", (*stress).inTx},
	{"by hand", (*stress).byHand},
	{"closed early", (*stress).closedEarly},
	{"under all locks", (*stress).underAll},
	{"nested", (*stress).nested},
	{singly, (*stress).bySingleStatements},
}

const singly = "by single statements"

// inTx increments the row in a transaction of InTx.
func (st *stress) inTx(ctx context.Context, _ *rand.Rand, db *sql.DB, a attempt) error {
	return lockctx.InTx(ctx, db, st.keys[a.row], nil, func(ctx context.Context, tx *sql.Tx) error {
		return a.make(ctx, tx)
	})
}

// byHand does so in a transaction on the pool or on the lock's DB.
func (st *stress) byHand(ctx context.Context, r *rand.Rand, db *sql.DB, a attempt) error {
	lk, tx, err := st.begin(ctx, r, db, a.row)
	if err != nil {
		return err
	}
	defer func() { _ = lk.Close() }()
	return a.commit(lk.Context(), tx)
}

// closedEarly closes the lock, thrice at once, at any moment of its work.
func (st *stress) closedEarly(ctx context.Context, r *rand.Rand, db *sql.DB, a attempt) error {
	lk, tx, err := st.begin(ctx, r, db, a.row)
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
	return a.commit(lk.Context(), tx)
}

// underAll does so with the locks of two rows, in any order.
func (st *stress) underAll(ctx context.Context, r *rand.Rand, db *sql.DB, a attempt) error {
	lk, err := lockctx.AcquireAll(ctx, db, []string{st.keys[a.row], st.keys[r.IntN(st.rows)]})
	if err != nil {
		return err
	}
	defer func() { _ = lk.Close() }()
	tx, err := lk.DB().BeginTx(lk.Context(), nil)
	if err != nil {
		return err
	}
	return a.commit(lk.Context(), tx)
}

// nested does so in InTx under the lock, or under that of another row.
func (st *stress) nested(ctx context.Context, r *rand.Rand, db *sql.DB, a attempt) error {
	lk, err := lockctx.Acquire(ctx, db, st.keys[r.IntN(a.row+1)]) // never a later one first
	if err != nil {
		return err
	}
	defer func() { _ = lk.Close() }()
	return st.inTx(lk.Context(), r, db, a)
}

func (st *stress) begin(ctx context.Context, r *rand.Rand, db *sql.DB, row int) (*lockctx.Lock, *sql.Tx, error) {
	lk, err := lockctx.Acquire(ctx, db, st.keys[row])
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

func (a attempt) make(ctx context.Context, q asker) error {
	if _, err := q.ExecContext(ctx, fmt.Sprintf("INSERT INTO t VALUES (%d, 0)", a.id)); err != nil {
		return err
	}
	return increment(ctx, q, a.row)
}

func (a attempt) commit(ctx context.Context, tx *sql.Tx) error {
	if err := a.make(ctx, tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// bySingleStatements increments outside of a transaction: what becomes of the writing one when its
// session ends, nobody knows.
func (st *stress) bySingleStatements(ctx context.Context, _ *rand.Rand, db *sql.DB, a attempt) error {
	wrote := false
	err := lockctx.Do(ctx, db, st.keys[a.row], func(ctx context.Context) error {
		var v int
		lk, _ := lockctx.FromContext(ctx)
		if err := lk.DB().QueryRowContext(ctx, fmt.Sprintf("SELECT v FROM t WHERE id = %d", a.row)).Scan(&v); err != nil {
			return err
		}
		_, err := lk.DB().ExecContext(ctx, fmt.Sprintf("UPDATE t SET v = %d WHERE id = %d", v+1, a.row))
		if wrote = err == nil; !wrote {
			err = errors.Join(err, lockctx.ErrOutcomeUnknown)
		}
		return err
	})
	if wrote {
		return nil // whatever Close says
	}
	return err
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

// check compares what was said of the attempts with the rows: what was acknowledged is there, once,
// and what failed is not.
func (st *stress) check(tab *table) {
	st.t.Helper()
	there := map[int]bool{}
	for _, id := range tab.ids() {
		there[id] = true
	}
	least, most, failed := make([]int, st.rows), make([]int, st.rows), 0
	for _, a := range st.made {
		unknown := errors.Is(a.err, lockctx.ErrOutcomeUnknown)
		switch {
		case a.err == nil:
			least[a.row]++
			most[a.row]++
		case unknown:
			most[a.row]++
		default:
			failed++
		}
		if a.how != singly && !unknown {
			require.Equal(st.t, a.err == nil, there[a.id], "whether what was done %s is there, of which the error was: %v", a.how, a.err)
		}
	}
	st.t.Logf("%d failed", failed)
	for row := range st.rows {
		v := tab.value(row)
		st.t.Logf("row %d: %d done, %d unknown, value %d", row, least[row], most[row]-least[row], v)
		require.GreaterOrEqual(st.t, v, least[row], "an update was lost")
		require.LessOrEqual(st.t, v, most[row], "an update that was said to have failed was made")
		require.NotZero(st.t, least[row])
	}
}
