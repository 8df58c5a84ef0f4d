package lockctx_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

const stressTTL = 2 * time.Second

// stressTime is how long each server is under stress.
func stressTime(t *testing.T) time.Duration {
	if text := os.Getenv("LOCKDB_STRESS"); text != "" {
		d, err := time.ParseDuration(text)
		require.NoError(t, err, "LOCKDB_STRESS")
		return d
	}
	if testing.Short() {
		return time.Second
	}
	return 12 * time.Second
}

func TestOfFiftyGoroutinesNeverTwoAreInside(t *testing.T) {
	for name, processes := range map[string]int{"one process": 1, "two processes": 2} {
		t.Run(name, func(t *testing.T) {
			turns := 80 / (3*processes - 2)
			if testing.Short() {
				turns = 10
			}
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				t.Parallel()
				view, tab := newTable(t, s)
				tab.mustInsert(testCtx(t), tab.bare, 0)
				dbs := make([]*sql.DB, processes)
				for i := range dbs {
					dbs[i] = open(t, view)
				}
				key, ctx := dbtest.Key(t), testCtx(t)
				var inside atomic.Int32
				var wg sync.WaitGroup
				errs := make(chan error, 50)
				for i := range 50 {
					wg.Go(func() {
						for range turns {
							err := lockctx.Do(ctx, dbs[i%processes], key, func(ctx context.Context) error {
								if n := inside.Add(1); n != 1 {
									return fmt.Errorf("%d inside", n)
								}
								defer inside.Add(-1)
								lk, _ := lockctx.FromContext(ctx)
								return increment(ctx, lk.DB(), 0)
							})
							if err != nil {
								errs <- err
								return
							}
						}
					})
				}
				wg.Wait()
				close(errs)
				for err := range errs {
					require.NoError(t, err)
				}
				require.Equal(t, 50*turns, tab.value(0))
			})
		})
	}
}

func TestStressLosesNoUpdateNoSessionAndNoGoroutine(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		before := view.Sessions(t) // of the test's own
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		relay := view.Relay(t)
		st := &stress{t: t, spared: askID(testCtx(t), t, s, tab.bare), seed: seed, view: view, rows: 4}
		st.keys = lockKeys(t, s, st.rows)
		st.dbs = []*sql.DB{
			st.open(view.DSN(), driver.WithTTL(stressTTL)),
			st.open(relay.DSN(), driver.WithTTL(stressTTL), driver.WithMaxSessions(4)),
		}
		st.dbs[0].SetMaxOpenConns(3)
		for row := range st.rows {
			tab.mustInsert(testCtx(t), tab.bare, row)
		}
		stop := make(chan struct{})
		var work, trouble sync.WaitGroup
		for i := range 16 {
			work.Go(func() { st.worker(i, stop) })
		}
		trouble.Go(func() { st.kill(stop) })
		trouble.Go(func() { st.reset(relay, stop) })
		time.Sleep(stressTime(t))
		close(stop)
		joined := async(func() error { work.Wait(); trouble.Wait(); return nil })
		require.NoError(t, within(t, joined, 2*promptly, "the workers' end", st.explain))
		st.check(tab)

		relay.ResetLost() // a connection that was cut off as it was opened has no TTL yet
		// What each db keeps: idle connections, and idle lock sessions.
		becomes(t, func() bool { return len(view.Sessions(t)) <= len(before)+len(st.dbs)*(2+2) },
			"sessions were left on the server", st.explain)
		for _, db := range st.dbs {
			require.NoError(t, db.Close())
		}
		becomes(t, func() bool { return len(view.Sessions(t)) == len(before) },
			"sessions were left on the server after Close", st.explain)
	})
}

// attempt is one increment of a row, which in a transaction also inserts a row of the attempt's own.
type attempt struct {
	id, row int
	how     string
	err     error
}

type stress struct {
	t      *testing.T
	spared int64 // the session that looks at the rows
	seed   uint64
	view   *dbtest.Server
	dbs    []*sql.DB
	rows   int      // how many there are to increment
	keys   []string // of their locks
	begun  atomic.Int64

	mu   sync.Mutex // guards what follows
	made []attempt
}

func (st *stress) open(dsn string, opts ...driver.Option) *sql.DB {
	db := openDSN(st.t, dsn, opts...)
	db.SetConnMaxLifetime(200 * time.Millisecond)
	return db
}

// lockKeys are n keys in the order in which AcquireAll takes their locks.
func lockKeys(t *testing.T, s *dbtest.Server, n int) []string {
	base, keys := dbtest.Key(t), make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint(base, i)
	}
	if !s.IsMySQL() {
		slices.SortFunc(keys, func(a, b string) int { return cmp.Compare(lockID(t, a), lockID(t, b)) })
	}
	return keys
}

// explain logs what the server says of those who are not done.
func (st *stress) explain() { logServer(st.t, st.view, st.keys...) }

func (st *stress) rand(i int) *rand.Rand { return rand.New(rand.NewPCG(st.seed, uint64(i))) }

// worker increments random counters in random ways until it is told to stop.
func (st *stress) worker(i int, stop <-chan struct{}) {
	r := st.rand(i)
	for {
		select {
		case <-stop:
			return
		default:
		}
		a, db := attempt{id: int(st.begun.Add(1)) + st.rows, row: r.IntN(st.rows)}, st.dbs[i%len(st.dbs)]
		ctx, cancel := context.WithTimeout(context.Background(), promptly)
		if r.IntN(4) == 0 {
			ctx, cancel = context.WithTimeout(context.Background(), time.Duration(r.IntN(20_000))*time.Microsecond)
		}
		way := attempts[r.IntN(len(attempts))]
		a.how, a.err = way.name, way.run(st, ctx, r, db, a)
		cancel()
		st.expected(a.err)
		st.mu.Lock()
		st.made = append(st.made, a)
		st.mu.Unlock()
	}
}
