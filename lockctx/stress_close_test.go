package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestStressOfDBCloseLeavesNoLockNoSessionAndNobodyWaiting(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 10
	}
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		before := len(view.Sessions(t))
		st := &stress{t: t, seed: rand.Uint64(), view: view, rows: 2, keys: lockKeys(t, s, 2)}
		t.Logf("seed %d", st.seed)
		for row := range st.rows {
			tab.mustInsert(testCtx(t), tab.bare, row)
		}
		out, r := newOutsider(t, view), st.rand(-1)
		for range rounds {
			db := openDSN(t, view.DSN(), driver.WithMaxSessions(r.IntN(4)), driver.WithBusyTimeout(time.Second))
			ctx, cancel := context.WithTimeout(context.Background(), 3*promptly)
			var work sync.WaitGroup
			for i := range 10 {
				work.Go(func() { st.untilClosed(ctx, db, i) })
			}
			time.Sleep(time.Duration(r.IntN(100_000)) * time.Microsecond)
			require.NoError(t, within(t, async(db.Close), promptly, "the end of db.Close", st.explain))
			within(t, async(func() bool { work.Wait(); return true }), promptly, "the end of the work", st.explain)
			cancel()
			for row := range st.rows {
				out.free(st.keys[row], promptly) // at once, or when the server sees the end of a session that was at work
			}
		}
		becomes(t, func() bool { return len(view.Sessions(t)) == before+1 }, "there are to be no sessions but the test's own", st.explain)
		st.check(tab)
	})
}

// untilClosed makes attempts until the db is closed, which each tells in its way.
func (st *stress) untilClosed(ctx context.Context, db *sql.DB, i int) {
	r := st.rand(i)
	for {
		a := attempt{id: int(st.begun.Add(1)) + st.rows, row: r.IntN(st.rows)}
		way := attempts[r.IntN(len(attempts))]
		a.how, a.err = way.name, way.run(st, ctx, r, db, a)
		st.mu.Lock()
		st.made = append(st.made, a)
		st.mu.Unlock()
		lk, err := lockctx.TryAcquire(ctx, db, fmt.Sprint(st.keys[0], "own", i))
		switch {
		case err == nil:
			_ = lk.Close()
		case errors.Is(err, lockctx.ErrClosed):
			return
		case !errors.Is(err, lockctx.ErrNotAcquired): // as it is when no session may be had
			st.t.Errorf("TryAcquire of a lock that nobody has: %v", err)
			return
		}
	}
}
