package lockctx_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"

	lockdb "github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestC36_AdvisoryIDAndPairMeetRawSQLOverTheirWholeRange(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres).CreateDatabase(t) // where nobody else takes these
	db, out := open(t, s), newOutsider(t, s)
	raw := func(function, args string) (granted bool) {
		require.NoError(t, out.conn.QueryRowContext(testCtx(t), "SELECT "+function+"("+args+")").Scan(&granted))
		return granted
	}
	locks := make(map[string]lockctx.Option) // by the arguments of the raw functions
	for _, id := range []int64{math.MinInt64, math.MinInt32, -1, 0, 1, math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32, math.MaxInt64} {
		locks[fmt.Sprintf("'%d'::bigint", id)] = lockctx.AdvisoryID(id)
	}
	// Two's complement: what unsigned numbers are as bits.
	for _, id := range []uint64{math.MaxInt64 + 2, math.MaxUint64 - 1, 1 << 63 / 3 * 2} {
		locks[fmt.Sprintf("('x%016x')::bit(64)::bigint", id)] = lockctx.AdvisoryID(int64(id))
	}
	for _, class := range []int32{math.MinInt32, -1, 0, 1, math.MaxInt32} {
		for _, id := range []int32{math.MinInt32, -1, 0, 1, math.MaxInt32} {
			locks[fmt.Sprintf("'%d'::int4, '%d'::int4", class, id)] = lockctx.AdvisoryPair(class, id)
		}
	}
	var held []*lockctx.Lock
	for args, option := range locks {
		lk, err := lockctx.TryAcquire(testCtx(t), db, args, option) // no two of them are the same
		require.NoError(t, err)
		held = append(held, lk)
		require.False(t, raw("pg_try_advisory_lock", args), args)
		_, err = lockctx.TryAcquire(testCtx(t), open(t, s), args, option)
		require.ErrorIs(t, err, lockctx.ErrNotAcquired, args)
	}
	for _, lk := range held {
		require.NoError(t, lk.Close())
		require.True(t, raw("pg_try_advisory_lock", lk.Key()), lk.Key())
		require.True(t, raw("pg_advisory_unlock", lk.Key()))
	}
	// Raw first.
	for args, option := range locks {
		require.True(t, raw("pg_try_advisory_lock", args))
		_, err := lockctx.TryAcquire(testCtx(t), db, "k", option)
		require.ErrorIs(t, err, lockctx.ErrNotAcquired, args)
		require.True(t, raw("pg_advisory_unlock", args))
	}
}

func TestC36_APairIsNotTheBigintOfTheSameBits(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres).CreateDatabase(t)
	db := open(t, s)
	pair := acquire(t, db, "pair", lockctx.AdvisoryPair(1, 2))
	bigint, err := lockctx.TryAcquire(testCtx(t), db, "bigint", lockctx.AdvisoryID(1<<32|2))
	require.NoError(t, err)
	require.NoError(t, bigint.Close())
	require.NoError(t, pair.Close())
}

func TestC36_AKeysOwnIDIsTheLockOfThatKey(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	key := dbtest.Key(t)
	lk := acquire(t, open(t, s), key)
	_, err := lockctx.TryAcquire(testCtx(t), open(t, s), "another name", lockctx.AdvisoryID(lockID(t, key)))
	require.ErrorIs(t, err, lockctx.ErrNotAcquired)
	require.NoError(t, lk.Close())
}

func TestC36_AdvisoryOptionsAreRefusedWhereTheyMeanNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s)
		if s.IsMySQL() {
			for _, option := range []lockctx.Option{lockctx.AdvisoryID(1), lockctx.AdvisoryPair(1, 2)} {
				_, err := lockctx.Acquire(testCtx(t), db, "the-key", option)
				require.ErrorIs(t, err, lockctx.ErrUnsupported)
				require.ErrorContains(t, err, "the-key")
			}
			return
		}
		_, err := lockctx.Acquire(testCtx(t), db, "the-key", lockctx.AdvisoryID(1), lockctx.AdvisoryPair(0, 1))
		require.ErrorContains(t, err, "AdvisoryPair")
		same := lockctx.AdvisoryID(lockID(t, dbtest.Key(t)))
		require.NoError(t, acquire(t, db, "k", same, same).Close(), "the same twice is no contradiction")
	})
}

func TestC35_TheNameThatIsLockedIsTheNameThatIsUnlocked(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		seen := &statements{}
		db := open(t, s, lockdb.WithInterceptor(seen), lockdb.WithNamespace("ns"))
		require.NoError(t, acquire(t, db, dbtest.Key(t)).Close()) // what is asked at first of a server
		seen.take()
		for _, key := range []string{"plain", "NOT plain \x00'\xff", strings.Repeat("long", 1000)} {
			for range 2 {
				lk := acquire(t, db, dbtest.Key(t)+key)
				require.NoError(t, lk.Close())
				locks := seen.take()
				require.Len(t, locks, 2, "one statement to lock and one to unlock")
				require.Equal(t, nameIn(t, locks[0]), nameIn(t, locks[1]))
			}
		}
	})
}

// statements collects the lock statements that lockdb sends.
type statements struct {
	sqlmw.NullInterceptor
	mu   sync.Mutex
	sent []string
}

func (i *statements) ConnQueryContext(ctx context.Context, conn driver.QueryerContext, query string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	if upper := strings.ToUpper(query); strings.Contains(upper, "_LOCK(") || strings.Contains(upper, "_UNLOCK(") {
		sent := query
		for _, arg := range args {
			sent += fmt.Sprintf(" '%v'", arg.Value)
		}
		i.mu.Lock()
		i.sent = append(i.sent, sent)
		i.mu.Unlock()
	}
	rows, err := conn.QueryContext(ctx, query, args)
	return ctx, rows, err
}

func (i *statements) take() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	sent := i.sent
	i.sent = nil
	return sent
}

// nameIn is what stands in quotes in a lock statement, literal or argument.
func nameIn(t testing.TB, statement string) string {
	t.Helper()
	parts := strings.Split(statement, "'")
	require.Len(t, parts, 3, statement)
	return parts[1]
}
