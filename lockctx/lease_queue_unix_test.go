//go:build unix

package lockctx_test

import (
	"database/sql"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

var queueHold = flag.Duration("lease.hold", 0, "how long at most those wait who queue for a lease in processes of their own")

func TestWaitersOfAProcessGetALeaseInTheirOrder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, key := open(t, view), dbtest.Key(t)
		holders := map[string]func() func(){
			"held by the same process": func() func() {
				lk := acquire(t, db, key, lockctx.Lease(lasting))
				return func() { require.NoError(t, lk.Close()) }
			},
			"held by another": func() func() {
				p := startPeer(t, view)
				peerAcquire.must(p, leaseArgs{Name: "it", Keys: []string{key}, TTL: lasting})
				return func() { peerClose.must(p, "it") }
			},
		}
		for name, hold := range holders {
			t.Run(name, func(t *testing.T) {
				release := hold()
				order := make(chan int, 20)
				closed := make(chan error, 20)
				for i := range 20 {
					granted := queueUp(t, db, key, lockctx.Lease(lasting))
					go func() {
						g := <-granted
						order <- i
						if g.err == nil {
							g.err = g.lk.Close()
						}
						closed <- g.err
					}()
				}
				release()
				for i := range 20 {
					require.Equal(t, i, within(t, order, promptly, "the next waiter"))
					require.NoError(t, within(t, closed, promptly, "the Close"))
				}
			})
		}
	})
}

// arrivals has a process of each wait for the key, one after the other in that order.
func arrivals(t *testing.T, view *dbtest.Server, watch *sql.DB, key string, peers []*process, order []int) []<-chan done[tenure] {
	t.Helper()
	granted := make([]<-chan done[tenure], len(peers))
	for n, i := range order {
		granted[i] = peerAcquire.begin(peers[i], leaseArgs{Name: "it", Keys: []string{key}, TTL: lasting})
		require.Eventually(t, func() bool { return waitersAtServer(t, view, watch) > n }, promptly, time.Millisecond)
	}
	return granted
}

func TestProcessesGetALeaseInTheOrderOfTheirArrival(t *testing.T) {
	const rounds = 10
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		db, key, watch := open(t, view), dbtest.Key(t), view.Open(t)
		peers := []*process{startPeer(t, view), startPeer(t, view), startPeer(t, view), startPeer(t, view)}
		pairs, swapped, overtaken := 0, 0, 0
		for range rounds {
			holder := acquire(t, db, key, lockctx.Lease(lasting))
			order := rand.Perm(len(peers))
			granted := arrivals(t, view, watch, key, peers, order)
			time.Sleep(rand.N(*queueHold + 1))
			require.NoError(t, holder.Close())
			again := async(func() grant {
				lk, err := lockctx.Acquire(testCtx(t), db, key, lockctx.Lease(lasting))
				return grant{lk, err, time.Now()}
			})
			tokens, last := make([]int64, len(peers)), int64(0)
			for range len(peers) + 1 {
				// Whoever is served next closes, so that the one after him is.
				i, came := servedNext(t, granted, again, tokens)
				if came != nil {
					last = came.Token()
					require.NoError(t, came.Close())
				} else {
					peerClose.must(peers[i], "it")
				}
			}
			for n, i := range order {
				if tokens[i] > last {
					overtaken++
				}
				for _, j := range order[n+1:] {
					pairs++
					if tokens[i] > tokens[j] {
						swapped++
					}
				}
			}
		}
		t.Logf("%d of %d pairs were served in the wrong order, and %d of %d after the one who came back at once", swapped, pairs, overtaken, rounds*len(peers))
		// Waits at the server go on in slices, and each begins at the end of its queue: those of who waits for long.
		require.LessOrEqual(t, swapped, pairs/6)
		require.LessOrEqual(t, overtaken, rounds*len(peers)/6)
	})
}

// servedNext waits for one of the waits to end. Of a process it notes the token, and returns whose it was.
func servedNext(t *testing.T, granted []<-chan done[tenure], again <-chan grant, tokens []int64) (i int, came *lockctx.Lock) {
	t.Helper()
	require.Eventually(t, func() bool {
		select {
		case g := <-again:
			require.NoError(t, g.err)
			came = g.lk
			return true
		default:
		}
		for i = range granted {
			select {
			case d := <-granted[i]:
				require.NoError(t, d.Err)
				tokens[i] = d.R.Token
				return true
			default:
			}
		}
		return false
	}, promptly, time.Millisecond/4)
	return i, came
}

func TestTryAcquireOfALeaseDoesNotOvertakeWaiters(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		holders, key, watch := open(t, view), dbtest.Key(t), view.Open(t)
		other, waiting := open(t, view), startPeer(t, view)
		began, overtakes := time.Now(), 0
		for range 20 {
			lk := acquire(t, holders, key, lockctx.Lease(lasting))
			granted := arrivals(t, view, watch, key, []*process{waiting}, []int{0})[0]
			tried := async(func() *lockctx.Lock {
				for {
					switch lk, err := lockctx.TryAcquire(testCtx(t), other, key, lockctx.Lease(lasting)); {
					case err == nil:
						return lk
					case t.Context().Err() != nil:
						return nil
					}
				}
			})
			require.NoError(t, lk.Close())
			var late *lockctx.Lock
			var d done[tenure]
			select {
			case d = <-granted:
				peerClose.must(waiting, "it")
				late = within(t, tried, promptly, "the turn of who tries")
				require.NoError(t, late.Close())
			case late = <-tried:
				overtakes++
				require.NoError(t, late.Close())
				d = within(t, granted, promptly, "the waiter's turn")
				peerClose.must(waiting, "it")
			case <-time.After(promptly):
				t.Fatal("nobody's turn")
			}
			require.NoError(t, d.Err)
		}
		require.LessOrEqual(t, overtakes, 2, "who only tried was before who waited, which can be between two slices of his wait")
		require.Less(t, time.Since(began), 2*promptly, "each wait leaves the next one less room to wait at the server")
	})
}

func TestTryAcquireGetsAnExpiredLeaseOfAStoppedHolderAtOnce(t *testing.T) {
	const ttl = 3 * time.Second
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, key, holder := open(t, view), dbtest.Key(t), startPeer(t, view)
		rows := newLeaseTable(t, view)
		require.NoError(t, acquire(t, db, key+"-", lockctx.Lease(lasting)).Close()) // dials
		held := peerAcquire.must(holder, leaseArgs{Name: "it", Keys: []string{key}, TTL: ttl})
		holder.stop()
		_, err := lockctx.TryAcquire(testCtx(t), db, key, lockctx.Lease(lasting))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired, "it has not expired")
		require.Eventually(t, func() bool { return !rows.isHeld(key) }, promptly, time.Millisecond)
		began := time.Now()
		lk, err := lockctx.TryAcquire(testCtx(t), db, key, lockctx.Lease(lasting))
		require.NoError(t, err)
		require.Less(t, time.Since(began), 2*time.Second)
		require.Greater(t, lk.Token(), held.Token)

		waiter := open(t, view)
		granted := queueUp(t, waiter, key, lockctx.Lease(lasting))
		require.NoError(t, lk.Close())
		g := within(t, granted, promptly, "a waiter's turn, while the stopped process still has the companion")
		require.NoError(t, g.err)
		require.NoError(t, g.lk.Close())
	})
}
