//go:build unix

package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

var exclusionTime = flag.Duration("lease.exclusion", 1500*time.Millisecond, "how long processes contend for leases on each server")

const (
	exclusionProcesses  = 4
	exclusionGoroutines = 50
	exclusionKeys       = 200
)

type churnArgs struct {
	Key         string
	Driver, DSN string // of the witness
	Goroutines  int
	Keys        int
	For         time.Duration
	TTL         time.Duration
	Troubled    bool // connections break: that is no fault
}

type churnResult struct {
	Tenures, Refused int64
	Least            int64 // tenures of the goroutine that had the fewest
	Errs             []string
}

// churn has a peer's goroutines take leases of random keys, a few of which most want, for a time.
var churn = newJob("churn", func(p *peer, a churnArgs) (r churnResult, err error) {
	bare, err := sql.Open(a.Driver, a.DSN)
	if err != nil {
		return r, err
	}
	defer func() { _ = bare.Close() }()
	bare.SetMaxOpenConns(8)
	bare.SetMaxIdleConns(8)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var tenures, refused atomic.Int64
	r.Least = -1
	until := time.Now().Add(a.For)
	for range a.Goroutines {
		wg.Go(func() {
			var own int64
			for time.Now().Before(until) {
				err := oneTenure(p.db, bare, a)
				switch {
				case err == nil:
					own++
				case !errors.Is(err, errWitness) && (a.Troubled || errors.Is(err, lockctx.ErrNotAcquired) || errors.Is(err, context.DeadlineExceeded)):
					refused.Add(1)
				default:
					mu.Lock()
					r.Errs = append(r.Errs, err.Error())
					mu.Unlock()
					return
				}
			}
			tenures.Add(own)
			mu.Lock()
			defer mu.Unlock()
			if r.Least < 0 || own < r.Least {
				r.Least = own
			}
		})
	}
	wg.Wait()
	r.Tenures, r.Refused = tenures.Load(), refused.Load()
	return r, nil
})

// oneTenure acquires in one of the ways to, and shows itself to the witness.
func oneTenure(db, bare *sql.DB, a churnArgs) error {
	key := rand.IntN(a.Keys)
	if rand.IntN(2) == 0 {
		key %= 8
	}
	name := fmt.Sprint(a.Key, "/", key)
	ctx, cancel := context.WithTimeout(context.Background(), 3*promptly)
	defer cancel()
	opts := []lockctx.Option{lockctx.Lease(a.TTL), lockctx.RenewEvery(200 * time.Millisecond)}
	acquire := lockctx.Acquire
	switch rand.IntN(8) {
	case 0:
		acquire = lockctx.TryAcquire
	case 1:
		opts = append(opts, lockctx.WithTimeout(rand.N(20*time.Millisecond)))
	case 2:
		short, cancel := context.WithTimeout(ctx, rand.N(20*time.Millisecond))
		defer cancel()
		ctx = short
	}
	lk, err := acquire(ctx, db, name, opts...)
	if err != nil {
		return err
	}
	seen := context.Background() // whatever becomes of ctx, the tenure ends with Close
	if err := enter(seen, bare, key, lk.Token()); err != nil {
		return errors.Join(err, lk.Close())
	}
	if err := leave(seen, bare, key, lk.Token()); err != nil {
		return errors.Join(err, lk.Close())
	}
	if err := lk.Close(); err != nil && !a.Troubled {
		return err
	}
	return nil
}

// exclusion has processes contend for leases under the eyes of a witness.
type exclusion struct {
	t    *testing.T
	view *dbtest.Server
	look *sql.DB
	args churnArgs
}

func newExclusion(t *testing.T, s *dbtest.Server) *exclusion {
	t.Helper()
	view := s.CreateDatabase(t)
	return &exclusion{t, view, witnessTable(t, view, exclusionKeys), churnArgs{
		Key: dbtest.Key(t), Driver: view.Driver(), DSN: view.DSN(), TTL: time.Minute,
		Goroutines: exclusionGoroutines, Keys: exclusionKeys, For: *exclusionTime,
	}}
}

// run returns when the processes have ended, and how many tenures each had. meanwhile is called from time to time.
func (e *exclusion) run(dsn string, meanwhile func()) (each []int64) {
	e.t.Helper()
	var runs []<-chan done[churnResult]
	for range exclusionProcesses {
		runs = append(runs, churn.begin(startPeerDSN(e.t, dsn), e.args))
	}
	var total int64
	for i, run := range runs {
		d, over := done[churnResult]{}, false
		for until := time.Now().Add(*exclusionTime + 3*promptly); !over; {
			select {
			case d = <-run:
				over = true
			case <-time.After(100 * time.Millisecond):
				require.True(e.t, time.Now().Before(until), "process %d does not end", i)
				meanwhile()
			}
		}
		require.NoError(e.t, d.Err)
		require.Empty(e.t, d.R.Errs)
		require.NotZero(e.t, d.R.Tenures, "process %d had no turn", i)
		e.t.Logf("process %d: %d tenures (of a goroutine at least %d), %d attempts given up", i, d.R.Tenures, d.R.Least, d.R.Refused)
		each, total = append(each, d.R.Tenures), total+d.R.Tenures
	}
	var tenures, inside int64
	require.NoError(e.t, e.look.QueryRow("SELECT SUM(tenures), COUNT(inside) FROM w").Scan(&tenures, &inside))
	require.Equal(e.t, total, tenures)
	require.Zero(e.t, inside)
	return each
}

// nothingStays checks that all leases can be had at once, while the processes still live: what one of them had
// left behind would keep TryAcquire from it.
func (e *exclusion) nothingStays(within time.Duration) {
	e.t.Helper()
	db, rows := open(e.t, e.view), newLeaseTable(e.t, e.view)
	for i := range exclusionKeys {
		key := fmt.Sprint(e.args.Key, "/", i)
		for until := time.Now().Add(within); ; time.Sleep(time.Millisecond) {
			lk, err := lockctx.TryAcquire(testCtx(e.t), db, key, lockctx.Lease(lasting))
			if err == nil {
				require.NoError(e.t, lk.Close())
				break
			}
			if time.Now().After(until) {
				row, _ := rows.look(key)
				e.t.Fatalf("not within %v: %v; its row: %+v", within, err, row)
			}
		}
	}
}

func TestOfFourProcessesNeverTwoHaveALeaseAndItsTokensOnlyGrow(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		e := newExclusion(t, s)
		most := 0
		e.run(e.view.DSN(), func() {
			if s.Kind() != dbtest.PgBouncer {
				most = max(most, sessionsOf(t, e.view, e.look)-1)
			}
		})
		t.Logf("at most %d connections, of which the witnesses had up to 8 for each process", most)
		e.nothingStays(promptly)
	})
}

func TestOfFourProcessesNeverTwoHaveALeaseWhileConnectionsBreak(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		e := newExclusion(t, s)
		relay := e.view.Relay(t)
		e.args.TTL, e.args.Troubled = 5*time.Second, true
		over := time.Now().Add(*exclusionTime)
		e.run(relay.DSN(), func() {
			if rand.IntN(3) == 0 && time.Now().Before(over) {
				relay.Reset()
			}
		})
		e.nothingStays(2 * e.args.TTL) // a release that was not confirmed leaves the lease to its expiry
	})
}

func TestFourProcessesShareALeaseFairly(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		e := newExclusion(t, s)
		e.args.Keys, e.args.Goroutines, e.args.For = 1, 8, e.args.For*2/3
		tenures := e.run(e.view.DSN(), func() {})
		var total int64
		for _, n := range tenures {
			total += n
		}
		for i, n := range tenures {
			require.GreaterOrEqual(t, 20*n, total, "process %d had %d of %d tenures", i, n, total)
		}
	})
}
