package conn_test

import (
	"context"
	"database/sql"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// allocCase is what must allocate no more through lockdb than without it.
type allocCase struct {
	name string
	do   func(ctx context.Context, db *sql.DB) error
}

// allocCases are the calls of database/sql that programs make most. one and
// with are queries without and with a parameter.
func allocCases(one, with string) []allocCase {
	// What is kept outside is not part of the count.
	var got int64
	kept := make(map[*sql.DB]*sql.Stmt)
	return []allocCase{
		{"QueryRow", func(ctx context.Context, db *sql.DB) error {
			_, err := queryRow(ctx, db, one)
			return err
		}},
		{"QueryRow with a parameter", func(ctx context.Context, db *sql.DB) error {
			_, err := queryRow(ctx, db, with, 1)
			return err
		}},
		{"Exec", func(ctx context.Context, db *sql.DB) error {
			_, err := db.ExecContext(ctx, one)
			return err
		}},
		{"Exec with a parameter", func(ctx context.Context, db *sql.DB) error {
			_, err := db.ExecContext(ctx, with, 1)
			return err
		}},
		{"Prepare, Exec, Query and Close", func(ctx context.Context, db *sql.DB) error {
			s, err := db.PrepareContext(ctx, with)
			if err != nil {
				return err
			}
			if _, err := s.ExecContext(ctx, 1); err != nil {
				return err
			}
			row := s.QueryRowContext(ctx, 1)
			settle()
			if err := row.Scan(&got); err != nil {
				return err
			}
			return s.Close()
		}},
		{"Exec with a parameter beside a prepared statement", func(ctx context.Context, db *sql.DB) (err error) {
			if kept[db] == nil {
				if kept[db], err = db.PrepareContext(ctx, with); err != nil {
					return err
				}
			}
			if _, err := db.ExecContext(ctx, with, 1); err != nil {
				return err
			}
			_, err = kept[db].ExecContext(ctx, 1)
			return err
		}},
		{"Begin and Commit", func(ctx context.Context, db *sql.DB) error {
			tx, err := begin(ctx, db)
			if err != nil {
				return err
			}
			return tx.Commit()
		}},
		{"Begin, Exec and Rollback", func(ctx context.Context, db *sql.DB) error {
			tx, err := begin(ctx, db)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, one); err != nil {
				return err
			}
			return tx.Rollback()
		}},
		{"Ping", func(ctx context.Context, db *sql.DB) error { return db.PingContext(ctx) }},
		{"Conn", func(ctx context.Context, db *sql.DB) error {
			c, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			if _, err := c.ExecContext(ctx, one); err != nil {
				return err
			}
			return c.Close()
		}},
	}
}

// settle lets goroutines that database/sql starts come to wait, or to their
// end. A wait for a context allocates a channel, unless the context ends first.
func settle() {
	for range 10 {
		runtime.Gosched()
	}
}

func begin(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	tx, err := db.BeginTx(ctx, nil)
	settle()
	return tx, err
}

func queryRow(ctx context.Context, db *sql.DB, query string, args ...any) (got int64, err error) {
	row := db.QueryRowContext(ctx, query, args...)
	settle()
	err = row.Scan(&got)
	return got, err
}

type depthKey int

// allocContexts are contexts without a lock.
func allocContexts(t *testing.T) map[string]context.Context {
	deep := context.Background()
	for i := range 10 {
		deep = context.WithValue(deep, depthKey(i), i)
	}
	cancellable, cancel := context.WithCancel(deep)
	t.Cleanup(cancel)
	return map[string]context.Context{"plain": context.Background(), "deep": deep, "cancellable": cancellable}
}

// sameAllocs compares what one call allocates, on the average of many: the rest
// of the process allocates too (a goroutine that has not ended yet) or spares an
// allocation (a pool that happens to be full). One of ours would make it 1 more.
func sameAllocs(t *testing.T, runs int, bare, db *sql.DB, cases []allocCase) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const same = 0.5
	for name, ctx := range allocContexts(t) {
		for _, c := range cases {
			var want, got []uint64
			for try := 0; try == 0 || math.Abs(middle(want)-middle(got)) > same && try < 20; try++ {
				want, got = allocs(t, want, runs, ctx, bare, c), allocs(t, got, runs, ctx, db, c)
			}
			require.InDelta(t, middle(want), middle(got), same, "%s under a %s context", c.name, name)
		}
	}
}

// allocs appends the counts of that many calls, and sorts.
func allocs(t *testing.T, counts []uint64, runs int, ctx context.Context, db *sql.DB, c allocCase) []uint64 {
	t.Helper()
	require.NoError(t, c.do(ctx, db)) // it may have to dial
	for range runs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := c.do(ctx, db)
		settle()
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		counts = append(counts, after.Mallocs-before.Mallocs)
	}
	slices.Sort(counts)
	return counts
}

// middle is the average of the middle half.
func middle(sorted []uint64) float64 {
	half := sorted[len(sorted)/4 : len(sorted)-len(sorted)/4]
	sum := uint64(0)
	for _, n := range half {
		sum += n
	}
	return float64(sum) / float64(len(half))
}

// noneAdded compares the bare driver with lockdb before any lock was taken,
// while one is held elsewhere in the process, and afterwards.
func noneAdded(t *testing.T, runs int, bare, db *sql.DB, cases []allocCase) {
	t.Helper()
	bare.SetMaxOpenConns(1)
	db.SetMaxOpenConns(1)
	t.Run("never a lock", func(t *testing.T) { sameAllocs(t, runs, bare, db, cases) })
	lk, err := lockctx.Acquire(context.Background(), db, dbtest.Key(t))
	require.NoError(t, err)
	t.Run("a lock elsewhere", func(t *testing.T) { sameAllocs(t, runs, bare, db, cases) })
	require.NoError(t, lk.Close())
	t.Run("no lock any more", func(t *testing.T) { sameAllocs(t, runs, bare, db, cases) })
}

func TestNothingIsAllocatedWhereNoLockIsInPlay(t *testing.T) {
	bare := sql.OpenDB(noopConnector{})
	defer bare.Close()
	c, err := driver.NewConnector(noopConnector{}, driver.WithDialect(driver.MySQL))
	require.NoError(t, err)
	db := sql.OpenDB(c)
	defer db.Close()
	noneAdded(t, 51, bare, db, allocCases("SELECT 1", "SELECT ?"))
}

func TestNothingIsAllocatedWhereNoLockIsInPlayOnRealServers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		with := "SELECT CAST(? AS SIGNED)"
		if !s.IsMySQL() {
			with = "SELECT $1::int"
		}
		bare, db, cases := s.Open(t), open(t, s), allocCases("SELECT 1", with)
		noneAdded(t, 21, bare, db, cases)
		lk := acquire(t, db, lockctx.Lease(time.Hour)) // which no renewal disturbs
		t.Run("a lease elsewhere", func(t *testing.T) { sameAllocs(t, 21, bare, db, cases) })
		require.NoError(t, lk.Close())
	})
}
