//go:build unix

package lockctx_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestTheSameOwnerTakesItsLiveLeaseOverAtOnce(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		key, watch, rows := dbtest.Key(t), view.Open(t), newLeaseTable(t, view)
		args := leaseArgs{Name: "it", Keys: []string{key}, TTL: lasting, Renew: 500 * time.Millisecond, Owner: "broker"}
		before, after := startPeer(t, view), startPeer(t, view)
		first := peerAcquire.must(before, args)
		peerBegin.must(before, txArgs{Name: "it", Query: "INSERT INTO t VALUES (1, 0)"})
		lost := peerEnd.begin(before, "it")

		db := open(t, view)
		stranger := queueUp(t, db, key, lockctx.Lease(lasting)) // who waits for the lease is overtaken
		if s.Kind() != dbtest.PgBouncer {
			require.Eventually(t, func() bool { return waitersAtServer(t, view, watch) == 1 }, promptly, time.Millisecond)
		}
		began := time.Now()
		second := peerAcquire.must(after, args)
		require.Less(t, second.At.Sub(began), promptly)
		require.Greater(t, second.Token, first.Token)
		d := within(t, lost, promptly, "the news of the loss")
		require.NoError(t, d.Err)
		require.ErrorIs(t, d.R.Err, lockctx.ErrLost)
		t.Logf("taken over after %v; the former holder heard of it after another %v", second.At.Sub(began), d.R.At.Sub(second.At))
		require.Less(t, d.R.At.Sub(second.At), promptly/2, "a renewal tells, of which there are many in that time")
		_, err := peerCommit.do(before, "it")
		require.Error(t, err)
		require.Empty(t, tab.ids(), "the former holder committed")
		_, err = peerClose.do(before, "it")
		require.ErrorIs(t, err, lockctx.ErrLost)

		row, _ := rows.look(key)
		require.Equal(t, second.Token, row.token)
		require.Positive(t, row.left)
		peerBegin.must(after, txArgs{Name: "it", Query: "INSERT INTO t VALUES (2, 0)"})
		peerCommit.must(after, "it")
		require.Equal(t, []int{2}, tab.ids())
		peerClose.must(after, "it")
		g := within(t, stranger, promptly, "the turn of another owner")
		require.NoError(t, g.err)
		require.NoError(t, g.lk.Close())
	})
}

func TestTheCommitOfAFormerHolderIsRefusedBeforeItHearsOfTheTakeOver(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		key := dbtest.Key(t)
		args := leaseArgs{Name: "it", Keys: []string{key}, TTL: 2 * lasting, Owner: "broker"} // no renewal in this test
		before, after := startPeer(t, view), startPeer(t, view)
		peerAcquire.must(before, args)
		peerBegin.must(before, txArgs{Name: "it", Query: "INSERT INTO t VALUES (1, 0)"})
		peerAcquire.must(after, args)
		_, err := peerCommit.do(before, "it")
		require.ErrorIs(t, err, lockctx.ErrLost)
		require.Empty(t, tab.ids(), "the former holder committed")
		_, err = peerClose.do(before, "it")
		require.ErrorIs(t, err, lockctx.ErrLost)
		peerClose.must(after, "it")
	})
}

func TestTheSameOwnerTakesOverFromAStoppedProcess(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, before := open(t, view), startPeer(t, view)
		ways := []acquirer{lockctx.Acquire, lockctx.TryAcquire}
		keys, first := make([]string, len(ways)), make([]tenure, len(ways))
		for i := range ways {
			keys[i] = dbtest.Key(t)
			first[i] = peerAcquire.must(before, leaseArgs{Name: keys[i], Keys: keys[i : i+1], TTL: lasting, Renew: time.Second, Owner: "broker"})
		}
		before.stop()
		for i, acquire := range ways {
			began := time.Now()
			lk, err := acquire(testCtx(t), db, keys[i], lockctx.Lease(lasting), lockctx.Owner("broker"))
			require.NoError(t, err)
			require.Less(t, time.Since(began), promptly)
			require.Greater(t, lk.Token(), first[i].Token)
			require.NoError(t, lk.Close())
		}
		before.signal(syscall.SIGCONT)
		for _, key := range keys {
			d := within(t, peerEnd.begin(before, key), promptly, "the news of the loss")
			require.NoError(t, d.Err)
			require.ErrorIs(t, d.R.Err, lockctx.ErrLost)
		}
	})
}

func TestWaitersWithOneOwnerInAProcessTakeTurns(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, key := open(t, view), dbtest.Key(t)
		opts := []lockctx.Option{lockctx.Lease(lasting), lockctx.Owner("broker")}
		lk := acquire(t, db, key, opts...)
		second := queueUp(t, db, key, opts...)
		third := queueUp(t, db, key, opts...)
		_, err := lockctx.TryAcquire(testCtx(t), db, key, opts...)
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		last := lk.Token()
		for _, next := range []<-chan grant{second, third} {
			require.Empty(t, next)
			require.NoError(t, lk.Err())
			require.NoError(t, lk.Close())
			g := within(t, next, promptly, "the next one's turn")
			require.NoError(t, g.err)
			require.Greater(t, g.lk.Token(), last)
			lk, last = g.lk, g.lk.Token()
		}
		require.NoError(t, lk.Close())
	})
}
