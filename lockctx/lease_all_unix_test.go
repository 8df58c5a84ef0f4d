//go:build unix

package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

const allKeys = 6

type allArgs struct {
	Key      string
	Driver   string // of the witness
	Backward bool   // the keys in the opposite order
	Turns    int    // of each goroutine
}

// takeAll has a peer's goroutines take several of the leases at once, each time others.
var takeAll = newJob("all", func(p *peer, a allArgs) (n int, err error) {
	bare, err := sql.Open(a.Driver, p.dsn)
	if err != nil {
		return 0, err
	}
	defer func() { _ = bare.Close() }()
	bare.SetMaxOpenConns(4)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() {
			for range a.Turns {
				if err := allOnce(p.db, bare, a); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return len(errs) * a.Turns, errors.Join(errs...)
})

func allOnce(db, bare *sql.DB, a allArgs) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*promptly)
	defer cancel()
	some := rand.Perm(allKeys)[:3]
	slices.Sort(some)
	if a.Backward {
		slices.Reverse(some)
	}
	keys := make([]string, len(some))
	for i, k := range some {
		keys[i] = fmt.Sprint(a.Key, k)
	}
	lk, err := lockctx.AcquireAll(ctx, db, keys, lockctx.Lease(lasting))
	if err != nil {
		return err
	}
	tokens := map[string]int64{}
	for i, key := range lk.Keys() {
		tokens[key] = lk.Tokens()[i]
	}
	for i, k := range some {
		if err := enter(context.Background(), bare, k, tokens[keys[i]]); err != nil {
			return err
		}
	}
	for i, k := range some {
		if err := leave(context.Background(), bare, k, tokens[keys[i]]); err != nil {
			return err
		}
	}
	return lk.Close()
}

func TestWhoTakeSeveralLeasesInOppositeOrdersDoNotWaitForEachOther(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		look := witnessTable(t, view, allKeys)
		args := allArgs{Key: dbtest.Key(t), Driver: view.Driver(), Turns: 15}
		back := args
		back.Backward = true
		began := time.Now()
		runs := []<-chan done[int]{takeAll.begin(startPeer(t, view), args), takeAll.begin(startPeer(t, view), back)}
		total := 0
		for _, run := range runs {
			d := within(t, run, 3*promptly, "the end of the turns")
			require.NoError(t, d.Err)
			total += d.R
		}
		t.Logf("%d turns in %v", total, time.Since(began))
		var tenures, inside int
		require.NoError(t, look.QueryRow("SELECT SUM(tenures), COUNT(inside) FROM w").Scan(&tenures, &inside))
		require.Equal(t, 3*total, tenures)
		require.Zero(t, inside)
	})
}

func TestAcquireAllThatFailsLeavesNoLeaseHeld(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, key, rows, other := open(t, view), dbtest.Key(t), newLeaseTable(t, view), startPeer(t, view)
		keys := []string{key + "c", key + "a", key + "b", key + "a"}
		held := peerAcquire.must(other, leaseArgs{Name: "it", Keys: []string{key + "b"}, TTL: lasting})
		ended, cancel := context.WithCancel(testCtx(t))
		failures := map[string]func() error{
			"WithTimeout(0)": func() error {
				_, err := lockctx.AcquireAll(testCtx(t), db, keys, lockctx.Lease(lasting), lockctx.WithTimeout(0))
				return err
			},
			"WithTimeout": func() error {
				_, err := lockctx.AcquireAll(testCtx(t), db, keys, lockctx.Lease(lasting), lockctx.WithTimeout(time.Second))
				return err
			},
			"a cancel": func() error {
				time.AfterFunc(time.Second, cancel)
				_, err := lockctx.AcquireAll(ended, db, keys, lockctx.Lease(lasting))
				return err
			},
		}
		for name, fail := range failures {
			want := lockctx.ErrNotAcquired
			if name == "a cancel" {
				want = context.Canceled
			}
			err := fail()
			require.ErrorIs(t, err, want, name)
			require.ErrorContains(t, err, key+"b", "the one that could not be had")
			require.Eventually(t, func() bool { return !rows.isHeld(key+"a") && !rows.isHeld(key+"c") }, promptly, time.Millisecond,
				"after %s a lease is still held", name)
			all, err := lockctx.Held(testCtx(t), db)
			require.NoError(t, err)
			require.Empty(t, all)
		}
		row, _ := rows.look(key + "b")
		require.Equal(t, held.Token, row.token)
		peerClose.must(other, "it")

		lk, err := lockctx.AcquireAll(testCtx(t), db, keys, lockctx.Lease(lasting))
		require.NoError(t, err)
		require.Equal(t, []string{key + "a", key + "b", key + "c"}, lk.Keys())
		require.Len(t, lk.Tokens(), 3)
		require.Equal(t, lk.Tokens()[0], lk.Token())
		for i, k := range lk.Keys() {
			row, _ := rows.look(k)
			require.Positive(t, row.left)
			require.Equal(t, row.token, lk.Tokens()[i])
		}
		require.NoError(t, lk.Close())
		for _, k := range lk.Keys() {
			require.False(t, rows.isHeld(k))
		}
	})
}

func TestTheLossOfOneLeaseIsThatOfAllThatWereTakenTogether(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		db, key, rows := open(t, view), dbtest.Key(t), newLeaseTable(t, view)
		keys := []string{key + "a", key + "b", key + "c"}
		lk, err := lockctx.AcquireAll(testCtx(t), db, keys, lockctx.Lease(lasting))
		require.NoError(t, err)
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), tx, 1)
		stolen := rows.steal(key + "b")
		require.ErrorIs(t, tx.Commit(), lockctx.ErrLost)
		require.Empty(t, tab.ids())
		requireLost(t, lk)
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		require.Eventually(t, func() bool { return !rows.isHeld(key+"a") && !rows.isHeld(key+"c") }, promptly, time.Millisecond)
		row, _ := rows.look(key + "b")
		require.Equal(t, stolen, row.token)
		require.Positive(t, row.left)
	})
}

func TestAcquireAllEndsWithTheLossOfALeaseThatItHasAlready(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, key, rows, other := open(t, view), dbtest.Key(t), newLeaseTable(t, view), startPeer(t, view)
		held := peerAcquire.must(other, leaseArgs{Name: "it", Keys: []string{key + "b"}, TTL: forLong})
		waiting := async(func() error {
			_, err := lockctx.AcquireAll(testCtx(t), db, []string{key + "a", key + "b"}, lockctx.Lease(forLong), lockctx.RenewEvery(50*time.Millisecond))
			return err
		})
		require.Eventually(t, func() bool { return rows.isHeld(key+"a") && waitersHere(t, db, key+"b") > 0 }, promptly, time.Millisecond)
		stolen := rows.steal(key + "a")
		require.ErrorIs(t, within(t, waiting, promptly, "the end of the wait"), lockctx.ErrLost)
		row, _ := rows.look(key + "a")
		require.Equal(t, stolen, row.token)
		require.Positive(t, row.left)
		row, _ = rows.look(key + "b")
		require.Equal(t, held.Token, row.token)
		peerClose.must(other, "it")
		next := acquire(t, db, key+"b", lockctx.Lease(forLong))
		require.NoError(t, next.Close())
	})
}
