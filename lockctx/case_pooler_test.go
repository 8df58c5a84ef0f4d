package lockctx_test

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestC45_SessionLocksAreRefusedBehindPgBouncer(t *testing.T) {
	backend := dbtest.Shared(t, dbtest.Postgres)
	for name, s := range map[string]*dbtest.Server{
		"transaction mode": ownPgBouncer(t),
		"session mode":     backend.PgBouncer(t, "pool_mode=session"),
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, s)
			requireUnsupported(t, db, "pooler", "PgBouncer", "lockdb_pooler=session", "lockctx.InTx", "directly")
			require.ErrorIs(t, lockctx.Do(testCtx(t), db, dbtest.Key(t), func(context.Context) error { return nil }), lockctx.ErrUnsupported)
			var one int
			require.NoError(t, db.QueryRow("SELECT 1").Scan(&one), "what needs no lock goes on")
		})
	}
}

func TestC45_PoolerSessionIsObeyed(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres).PgBouncer(t, "pool_mode=session")
	db, err := sql.Open("lockdb", s.DSN()+"&lockdb_pooler=session&lockdb_ttl=3s")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	key, out := dbtest.Key(t), newOutsider(t, s)
	lk := acquire(t, db, key)
	require.False(t, out.try(key))
	time.Sleep(3 * time.Second) // several pings
	require.NoError(t, lk.Err())
	require.NoError(t, lk.Close())
	require.True(t, out.try(key))
}

func TestC45_PoolerSessionIsObeyedAgainstTheEvidence(t *testing.T) {
	log := new(journal)
	db := open(t, ownPgBouncer(t), driver.WithPooler(driver.PoolerSession), driver.WithLogger(log.logger(0)))
	lk, err := lockctx.Acquire(testCtx(t), db, dbtest.Key(t))
	require.NoError(t, err)
	_ = lk.Close()
	require.Contains(t, log.text(), "lockdb_pooler=session")
	require.Contains(t, log.text(), "two connections were granted the same lock")
}

// hops are the ways of poolers that do not show.
func hops() map[string]func(bool) bool {
	ways := map[string]func(bool) bool{
		"each statement to the other session": func(bool) bool { return true },
	}
	for _, seed := range []uint64{1, 2, 3, 4, 5, 6, 7, 8} {
		var mu sync.Mutex // the generator is not for several at once
		random := rand.New(rand.NewPCG(seed, seed))
		ways["at random, "+string(rune('0'+seed))] = func(bool) bool {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(2) == 0
		}
	}
	return ways
}

func TestC45_APoolerThatDoesNotShowIsFound(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for name, hop := range hops() {
			t.Run(name, func(t *testing.T) {
				requireUnsupported(t, openPooled(t, s, hop), "pooler or proxy", "directly")
			})
		}
	})
}

func TestC45_InTxLosesNoUpdateThroughAPoolerThatDoesNotShow(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	table, key := counter(t, s.Open(t)), dbtest.Key(t)
	var wg sync.WaitGroup
	for range 2 {
		db := openPooled(t, s, func(bool) bool { return true })
		for range 10 {
			wg.Go(func() {
				for range 10 {
					if err := lockctx.InTx(testCtx(t), db, key, nil, raise(table)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	var n int
	require.NoError(t, s.Open(t).QueryRow("SELECT n FROM "+table).Scan(&n))
	require.Equal(t, 200, n)
}

func TestC46_APoolerThatStaysUntilACommitIsFound(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		requireUnsupported(t, openPooled(t, s, func(afterTx bool) bool { return afterTx }), "pooler or proxy", "directly")
	})
}

func TestC45_OneThatHidesFromTheTestIsFoundByThePings(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		var told atomic.Bool
		db := openPooled(t, s, whenTold(&told), driver.WithTTL(time.Second))
		lk := acquire(t, db, dbtest.Key(t))
		told.Store(true)
		requireLost(t, lk)
		require.ErrorContains(t, lk.Err(), "the connection has come to another")
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}
