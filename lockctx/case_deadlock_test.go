package lockctx_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// party is one of two who hold a lock each and want the other's.
type party struct {
	db   *sql.DB
	lk   *lockctx.Lock
	want string
}

// cross has two parties want each other's locks, and tells which of them was
// answered first, and with what.
func cross(t testing.TB, a, b party, opts ...lockctx.Option) (first, second party, other <-chan grant, err error) {
	t.Helper()
	nest := func(p party) <-chan grant {
		got := make(chan grant, 1)
		go func() {
			lk, err := lockctx.Acquire(p.lk.Context(), p.db, p.want, opts...)
			got <- grant{lk, err, time.Now()}
		}()
		return got
	}
	fromA, fromB := nest(a), nest(b)
	select {
	case g := <-fromA:
		return a, b, fromB, g.err
	case g := <-fromB:
		return b, a, fromA, g.err
	case <-time.After(20 * time.Second):
		t.Fatal("nobody was told of the deadlock")
		panic("unreachable")
	}
}

func TestC12_ErrDeadlockIsTheServersErrorAndThePeerWaitsForTheVictimsRelease(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		key := dbtest.Key(t)
		dbA, dbB := open(t, s), open(t, s)
		a := party{dbA, acquire(t, dbA, key+"a"), key + "b"}
		b := party{dbB, acquire(t, dbB, key+"b"), key + "a"}
		victim, peer, other, err := cross(t, a, b)
		require.ErrorIs(t, err, lockctx.ErrDeadlock)
		require.NotErrorIs(t, err, lockctx.ErrNotAcquired)
		require.ErrorContains(t, err, victim.want)
		if s.IsMySQL() {
			var theirs *mysql.MySQLError
			require.ErrorAs(t, err, &theirs)
		} else {
			var theirs *pgconn.PgError
			require.ErrorAs(t, err, &theirs)
			require.Equal(t, "40P01", theirs.Code)
		}
		select {
		case g := <-other:
			t.Fatalf("the peer goes on while the victim holds his lock: %v", g.err)
		case <-time.After(300 * time.Millisecond):
		}
		require.NoError(t, victim.db.PingContext(victim.lk.Context()), "the victim's session is as good as before")
		require.NoError(t, victim.lk.Close())
		g := within(t, other, promptly, "the peer's turn")
		require.NoError(t, g.err)
		require.NoError(t, g.lk.Close())
		require.NoError(t, peer.lk.Close())
		require.NoError(t, acquire(t, victim.db, victim.want).Close(), "begun again")
	})
}

// PostgreSQL only tries in a transaction, which a deadlock would abort: there
// the time given ends it.
func TestC12_ADeadlockDoesNotCostTheVictimItsTransaction(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		key := dbtest.Key(t)
		var parties [2]party
		var txs [2]*sql.Tx
		for i, name := range []string{"a", "b"} {
			db := open(t, view)
			parties[i] = party{db, acquire(t, db, key+name), key + map[string]string{"a": "b", "b": "a"}[name]}
			var err error
			txs[i], err = db.BeginTx(parties[i].lk.Context(), nil)
			require.NoError(t, err)
			tab.mustInsert(context.Background(), txs[i], i)
		}
		victim, peer, other, err := cross(t, parties[0], parties[1], lockctx.WithTimeout(3*time.Second))
		if s.IsMySQL() {
			require.ErrorIs(t, err, lockctx.ErrDeadlock)
		} else {
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		}
		i := 0
		if victim.lk == parties[1].lk {
			i = 1
		}
		tab.mustInsert(context.Background(), txs[i], i+10)
		require.NoError(t, victim.lk.Err())
		require.NoError(t, txs[i].Commit())
		require.Equal(t, []int{i, i + 10}, tab.ids())
		require.NoError(t, victim.lk.Close())
		if g := within(t, other, promptly, "the peer"); s.IsMySQL() {
			require.NoError(t, g.err)
			require.NoError(t, g.lk.Close())
		}
		require.NoError(t, txs[1-i].Commit())
		require.NoError(t, peer.lk.Close())
		require.Len(t, tab.ids(), 3)
	})
}

func TestC12_AcquireAllUnderALockThatMeetsADeadlockTakesNone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		key, out := dbtest.Key(t), newOutsider(t, s)
		dbA, dbB := open(t, s), open(t, s)
		a, b := acquire(t, dbA, key+"a"), acquire(t, dbB, key+"b")
		all := func(db *sql.DB, lk *lockctx.Lock, keys ...string) <-chan grant {
			got := make(chan grant, 1)
			go func() {
				all, err := lockctx.AcquireAll(lk.Context(), db, keys)
				got <- grant{all, err, time.Now()}
			}()
			return got
		}
		fromA := all(dbA, a, key+"1", key+"2", key+"b", key+"3")
		fromB := all(dbB, b, key+"5", key+"6", key+"a", key+"7")
		victim, peer, other, keys := a, b, fromB, []string{key + "1", key + "2", key + "3"}
		var got grant
		select {
		case got = <-fromA:
		case got = <-fromB:
			victim, peer, other, keys = b, a, fromA, []string{key + "5", key + "6", key + "7"}
		case <-time.After(20 * time.Second):
			t.Fatal("nobody was told of the deadlock")
		}
		require.ErrorIs(t, got.err, lockctx.ErrDeadlock)
		require.NoError(t, victim.Err())
		for _, k := range keys {
			out.free(k, promptly)
		}
		require.False(t, out.try(victim.Key()))
		require.NoError(t, victim.Close())
		g := within(t, other, promptly, "the peer's turn")
		require.NoError(t, g.err)
		require.NoError(t, g.lk.Close())
		require.NoError(t, peer.Close())
	})
}

// The index waits for the waiters' snapshots, and the waiters for its creator.
func TestC14_TheHolderItselfCanCreateAnIndexConcurrently(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres).CreateDatabase(t)
	db, bare, key := open(t, s), s.Open(t), dbtest.Key(t)
	_, err := bare.Exec("CREATE TABLE t (id int)")
	require.NoError(t, err)
	holder := acquire(t, db, key)
	var waits []<-chan grant
	for range 20 {
		waits = append(waits, waitFor(testCtx(t), t, open(t, s), key))
	}
	require.Eventually(t, func() bool { return waitersAtServer(t, s, bare) >= 15 }, promptly, 10*time.Millisecond)
	start := time.Now()
	_, err = db.ExecContext(holder.Context(), "CREATE INDEX CONCURRENTLY i ON t (id)")
	require.NoError(t, err)
	t.Logf("CREATE INDEX CONCURRENTLY took %v", time.Since(start))
	require.Less(t, time.Since(start), 5*time.Second)
	require.NoError(t, holder.Close())
	served := make(chan error, len(waits))
	for _, wait := range waits {
		go func() {
			g := <-wait
			if g.err == nil {
				g.err = g.lk.Close()
			}
			served <- g.err
		}()
	}
	for range waits {
		require.NoError(t, within(t, served, 30*time.Second, "a waiter's turn"))
	}
}
