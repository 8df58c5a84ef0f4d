package lockctx_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// begins are the ways to begin a transaction under a lease.
var begins = map[string]func(t *testing.T, db *sql.DB, lk *lockctx.Lock) *sql.Tx{
	"on the pool": func(t *testing.T, db *sql.DB, lk *lockctx.Lock) *sql.Tx {
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		return tx
	},
	"on the lock's DB": func(t *testing.T, _ *sql.DB, lk *lockctx.Lock) *sql.Tx {
		tx, err := lk.DB().BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		return tx
	},
	"on the lock's Conn": func(t *testing.T, _ *sql.DB, lk *lockctx.Lock) *sql.Tx {
		c, err := lk.Conn(testCtx(t))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		tx, err := c.BeginTx(testCtx(t), nil)
		require.NoError(t, err)
		return tx
	},
	"under a session lock inside": func(t *testing.T, db *sql.DB, lk *lockctx.Lock) *sql.Tx {
		session, err := lockctx.Acquire(lk.Context(), db, dbtest.Key(t))
		require.NoError(t, err)
		t.Cleanup(func() { _ = session.Close() })
		tx, err := db.BeginTx(session.Context(), nil)
		require.NoError(t, err)
		return tx
	},
}

func eachBegin(t *testing.T, f func(t *testing.T, s *dbtest.Server, begin func(*testing.T, *sql.DB, *lockctx.Lock) *sql.Tx)) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for name, begin := range begins {
			t.Run(name, func(t *testing.T) { f(t, s.CreateDatabase(t), begin) })
		}
	})
}

// inserts makes a table and returns how to write to it and how many rows it has.
func inserts(t *testing.T, s *dbtest.Server) (write func(*sql.Tx) error, count func() int) {
	bare := s.Open(t)
	_, err := bare.ExecContext(testCtx(t), "CREATE TABLE written (n INT)")
	require.NoError(t, err)
	return func(tx *sql.Tx) error {
			_, err := tx.ExecContext(context.Background(), "INSERT INTO written VALUES (1)")
			return err
		}, func() (n int) {
			require.NoError(t, bare.QueryRowContext(testCtx(t), "SELECT count(*) FROM written").Scan(&n))
			return n
		}
}

func TestATransactionUnderALeaseCommits(t *testing.T) {
	eachBegin(t, func(t *testing.T, s *dbtest.Server, begin func(*testing.T, *sql.DB, *lockctx.Lock) *sql.Tx) {
		write, count := inserts(t, s)
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(ttl))
		for range 3 {
			tx := begin(t, db, lk)
			require.NoError(t, write(tx))
			require.NoError(t, tx.Commit())
		}
		require.Equal(t, 3, count())
		tx := begin(t, db, lk)
		require.NoError(t, write(tx))
		require.NoError(t, tx.Rollback())
		require.Equal(t, 3, count())
		require.NoError(t, lk.Close())
	})
}

func TestATransactionDoesNotCommitOnceTheLeaseHasMovedOn(t *testing.T) {
	eachBegin(t, func(t *testing.T, s *dbtest.Server, begin func(*testing.T, *sql.DB, *lockctx.Lock) *sql.Tx) {
		write, count := inserts(t, s)
		db, key := open(t, s), dbtest.Key(t)
		lk := acquire(t, db, key, lockctx.Lease(ttl))
		tx := begin(t, db, lk)
		require.NoError(t, write(tx))
		newLeaseTable(t, s).steal(key)
		err := tx.Commit()
		require.ErrorIs(t, err, lockctx.ErrLost)
		require.NotErrorIs(t, err, lockctx.ErrOutcomeUnknown)
		require.Zero(t, count())
		require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
		require.ErrorIs(t, lk.Context().Err(), lockctx.ErrLost)
		require.ErrorIs(t, context.Cause(lk.Context()), lockctx.ErrLost)
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		require.NoError(t, db.PingContext(testCtx(t)))
	})
}

func TestCloseOfALeaseRollsBackWhatIsOpenUnderIt(t *testing.T) {
	eachBegin(t, func(t *testing.T, s *dbtest.Server, begin func(*testing.T, *sql.DB, *lockctx.Lock) *sql.Tx) {
		write, count := inserts(t, s)
		db, key := open(t, s), dbtest.Key(t)
		lk := acquire(t, db, key, lockctx.Lease(ttl))
		tx := begin(t, db, lk)
		require.NoError(t, write(tx))
		start := time.Now()
		require.ErrorIs(t, lk.Close(), lockctx.ErrReleased)
		require.Less(t, time.Since(start), promptly)
		require.Error(t, tx.Commit())
		require.Zero(t, count())
		require.False(t, newLeaseTable(t, s).isHeld(key))
	})
}

func TestATransactionUnderALeaseThatWasReleasedCannotBegin(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(ttl))
		c, err := lk.Conn(testCtx(t))
		require.NoError(t, err)
		require.NoError(t, lk.Close())
		_, err = db.BeginTx(lk.Context(), nil)
		require.ErrorIs(t, err, lockctx.ErrReleased)
		_, err = c.BeginTx(testCtx(t), nil)
		require.ErrorIs(t, err, lockctx.ErrReleased)
		require.NoError(t, c.Close())
	})
}

func TestAReadOnlyTransactionNeedsNoFence(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s.CreateDatabase(t)), dbtest.Key(t)
		lk := acquire(t, db, key, lockctx.Lease(ttl))
		tx, err := db.BeginTx(lk.Context(), &sql.TxOptions{ReadOnly: true})
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.NoError(t, lk.Close())
	})
}

func TestInTxUnderALeaseNeedsNoSlotOfThePool(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		write, count := inserts(t, s)
		db, key := open(t, s), dbtest.Key(t)
		db.SetMaxOpenConns(1)
		busy, err := db.Conn(testCtx(t))
		require.NoError(t, err)
		for range 2 {
			err = lockctx.InTx(testCtx(t), db, key, nil, func(_ context.Context, tx *sql.Tx) error { return write(tx) }, lockctx.Lease(ttl))
			require.NoError(t, err)
		}
		require.Equal(t, 2, count())
		err = lockctx.InTx(testCtx(t), db, key, nil, func(_ context.Context, tx *sql.Tx) error {
			newLeaseTable(t, s).steal(key)
			return write(tx)
		}, lockctx.Lease(ttl))
		require.ErrorIs(t, err, lockctx.ErrLost)
		require.Equal(t, 2, count())
		require.NoError(t, busy.Close())
	})
}

func TestTheDBOfALeaseTakesWhatTheDriverTakes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		lk := acquire(t, open(t, s), dbtest.Key(t), lockctx.Lease(ttl))
		query, arg, want := "SELECT ?", any(uint64(1<<63+1)), "9223372036854775809"
		if !s.IsMySQL() {
			query, arg, want = "SELECT $1::int[]::text", []int32{1, 2}, "{1,2}"
		}
		var got string
		require.NoError(t, lk.DB().QueryRowContext(lk.Context(), query, arg).Scan(&got))
		require.Equal(t, want, got)
		_, err := lk.DB().ExecContext(testCtx(t), "SELECT 1")
		require.ErrorIs(t, err, lockctx.ErrUnsupported, "under no lease")
		require.NoError(t, lk.Close())
	})
}

func TestFenceByHandGuardsATransactionThatWasBegunElsewhere(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		bare, db, key := s.Open(t), open(t, s), dbtest.Key(t)
		lk := acquire(t, db, key, lockctx.Lease(ttl))
		begin := func() *sql.Tx {
			tx, err := bare.BeginTx(testCtx(t), nil)
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback() })
			return tx
		}
		require.ErrorIs(t, lockctx.Fence(testCtx(t), begin()), lockctx.ErrUnsupported)
		tx := begin()
		require.NoError(t, lockctx.Fence(lk.Context(), tx))
		require.NoError(t, tx.Commit())
		for range 5 {
			newLeaseTable(t, s).steal(key)
			tx = begin() // on MySQL the fence has the row under lock until it ends
			require.ErrorIs(t, lockctx.Fence(lk.Context(), tx), lockctx.ErrLost)
			require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
			began := time.Now()
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
			require.Less(t, time.Since(began), 4*time.Second, "Close waited for the row")
			require.NoError(t, tx.Rollback())
			newLeaseTable(t, s).expire(key)
			lk = acquire(t, db, key, lockctx.Lease(ttl))
		}
		require.NoError(t, lk.Close())
	})
}
