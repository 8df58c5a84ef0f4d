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

// witnessTable makes a table that sees tenures as they are, through connections that know nothing of lockdb: who has a
// lease marks its row with his token. The row must be free then, and have had lesser tokens only.
func witnessTable(t testing.TB, view *dbtest.Server, keys int) *sql.DB {
	t.Helper()
	bare := view.Open(t)
	bare.SetMaxOpenConns(1)
	_, err := bare.Exec("CREATE TABLE w (k BIGINT PRIMARY KEY, inside BIGINT, token BIGINT NOT NULL, tenures BIGINT NOT NULL)")
	require.NoError(t, err)
	for k := range keys {
		_, err := bare.Exec(fmt.Sprintf("INSERT INTO w VALUES (%d, NULL, 0, 0)", k))
		require.NoError(t, err)
	}
	return bare
}

// change runs a statement that must change one row.
func change(ctx context.Context, bare *sql.DB, query string) error {
	res, err := bare.ExecContext(ctx, query)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return errors.Join(fmt.Errorf("%w: %d rows changed by %s", errWitness, n, query), err)
	}
	return nil
}

var errWitness = errors.New("the witness has seen two inside, or a token that went back")

func enter(ctx context.Context, bare *sql.DB, key int, token int64) error {
	return change(ctx, bare, fmt.Sprintf("UPDATE w SET inside = %d, token = %d, tenures = tenures + 1 WHERE k = %d AND inside IS NULL AND token < %d", token, token, key, token))
}

func leave(ctx context.Context, bare *sql.DB, key int, token int64) error {
	return change(ctx, bare, fmt.Sprintf("UPDATE w SET inside = NULL WHERE k = %d AND inside = %d", key, token))
}

type churnArgs struct {
	Key        string
	Driver     string // of the witness
	Goroutines int
	Keys       int
	For        time.Duration
}

type churnResult struct {
	Tenures, Refused int64
	Least            int64 // tenures of the goroutine that had the fewest
	Errs             []string
}

// churn has a peer's goroutines take leases of random keys, a few of which most want, for a time.
var churn = newJob("churn", func(p *peer, a churnArgs) (r churnResult, err error) {
	bare, err := sql.Open(a.Driver, p.dsn)
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
				case errors.Is(err, lockctx.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded):
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
	opts := []lockctx.Option{lockctx.Lease(time.Minute), lockctx.RenewEvery(200 * time.Millisecond)}
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
		return err
	}
	if err := leave(seen, bare, key, lk.Token()); err != nil {
		return err
	}
	return lk.Close()
}

func requireExclusion(t *testing.T, s *dbtest.Server) {
	view := s.CreateDatabase(t)
	look := witnessTable(t, view, exclusionKeys)
	args := churnArgs{
		Key: dbtest.Key(t), Driver: view.Driver(), Goroutines: exclusionGoroutines, Keys: exclusionKeys, For: *exclusionTime,
	}
	var runs []<-chan done[churnResult]
	for range exclusionProcesses {
		runs = append(runs, churn.begin(startPeer(t, view), args))
	}
	connections := 0
	var total int64
	for i, run := range runs {
		for {
			var d done[churnResult]
			select {
			case d = <-run:
			case <-time.After(200 * time.Millisecond):
				if s.Kind() != dbtest.PgBouncer {
					connections = max(connections, sessionsOf(t, view, look))
				}
				continue
			}
			require.NoError(t, d.Err)
			require.Empty(t, d.R.Errs)
			require.NotZero(t, d.R.Tenures, "process %d had no turn", i)
			t.Logf("process %d: %d tenures (of a goroutine at least %d), %d attempts given up", i, d.R.Tenures, d.R.Least, d.R.Refused)
			total += d.R.Tenures
			break
		}
	}
	t.Logf("%d tenures, at most %d connections of %d processes, of which the witnesses had up to 8 each", total, connections, exclusionProcesses)
	var tenures, inside int64
	require.NoError(t, look.QueryRow("SELECT SUM(tenures), COUNT(inside) FROM w").Scan(&tenures, &inside))
	require.Equal(t, total, tenures)
	require.Zero(t, inside)
}

func TestOfFourProcessesNeverTwoHaveALeaseAndItsTokensOnlyGrow(t *testing.T) {
	dbtest.Each(t, requireExclusion)
}

func TestThroughPgBouncerOfFourProcessesNeverTwoHaveALease(t *testing.T) {
	requireExclusion(t, dbtest.Shared(t, dbtest.PgBouncer))
}
