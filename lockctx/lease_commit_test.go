package lockctx_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestTheOutcomeOfAFencedCommitIsUnknownWhenTheConnectionEndsMeanwhile(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for name, opts := range map[string][]driver.Option{"in one message": nil, "one after the other": {driver.WithInterceptor(sqlmw.NullInterceptor{})}} {
			t.Run(name, func(t *testing.T) {
				s := s.CreateDatabase(t)
				write, count := inserts(t, s)
				relay := s.Relay(t)
				db, key := openDSN(t, relay.DSN(), opts...), dbtest.Key(t)
				lk := acquire(t, db, key, lockctx.Lease(ttl))
				tx, err := db.BeginTx(lk.Context(), nil)
				require.NoError(t, err)
				require.NoError(t, write(tx))
				relay.CutReplies()
				committed := make(chan error, 1)
				go func() { committed <- tx.Commit() }()
				select {
				case err := <-committed:
					t.Fatalf("committed without an answer: %v", err)
				case <-time.After(100 * time.Millisecond): // the message is on its way
				}
				if opts == nil && s.Kind() != dbtest.MySQL {
					require.Eventually(t, func() bool { return count() == 1 }, promptly, time.Millisecond, "or it is there")
				}
				relay.Reset()
				err = <-committed
				relay.Heal()
				require.Error(t, err)
				require.NotErrorIs(t, err, sqldriver.ErrBadConn)
				if opts == nil {
					if s.Kind() != dbtest.MySQL { // which has the fence in a message of its own
						require.ErrorIs(t, err, lockctx.ErrOutcomeUnknown)
					}
				} else {
					require.NotErrorIs(t, err, lockctx.ErrOutcomeUnknown, "what was cut is the fence, before COMMIT")
				}
				_ = lk.Close()
			})
		}
	})
}

func TestAnInterceptorSeesCommitOfAFencedTransaction(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		write, count := inserts(t, s)
		seen := &commitSpy{}
		db, key := open(t, s, driver.WithInterceptor(seen)), dbtest.Key(t)
		lk := acquire(t, db, key, lockctx.Lease(ttl))
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, write(tx))
		require.NoError(t, tx.Commit())
		require.Equal(t, 1, seen.n)
		require.Equal(t, 1, count())

		tx, err = db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, write(tx))
		newLeaseTable(t, s).steal(key)
		require.ErrorIs(t, tx.Commit(), lockctx.ErrLost)
		require.Equal(t, 1, seen.n)
		require.Equal(t, 1, count())
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}

// commitSpy counts what an interceptor sees of Commit.
type commitSpy struct {
	sqlmw.NullInterceptor
	n int
}

func (c *commitSpy) TxCommit(ctx context.Context, tx sqldriver.Tx) error {
	c.n++
	return c.NullInterceptor.TxCommit(ctx, tx)
}

func TestCommitOfAnAbortedTransactionUnderALeaseSaysWhatTheDriverSays(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		if s.IsMySQL() { // there a statement's failure aborts nothing
			return
		}
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(ttl))
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(lk.Context(), "SELECT 1/0")
		require.Error(t, err)
		require.ErrorIs(t, tx.Commit(), pgx.ErrTxCommitRollback)
		require.NoError(t, lk.Close())
	})
}

func TestAConnectionOfThePoolSurvivesTransactionsUnderALease(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		db := open(t, s)
		db.SetMaxOpenConns(1)
		var ids []int64
		query := "SELECT CONNECTION_ID()"
		if !s.IsMySQL() {
			query = "SELECT pg_backend_pid()"
		}
		note := func(q interface {
			QueryRowContext(context.Context, string, ...any) *sql.Row
		},
		) {
			var id int64
			require.NoError(t, q.QueryRowContext(testCtx(t), query).Scan(&id))
			ids = append(ids, id)
		}
		note(db)
		for _, end := range []func(*lockctx.Lock, *sql.Tx){
			func(_ *lockctx.Lock, tx *sql.Tx) { require.NoError(t, tx.Commit()) },
			func(_ *lockctx.Lock, tx *sql.Tx) { require.NoError(t, tx.Rollback()) },
			func(lk *lockctx.Lock, _ *sql.Tx) { require.ErrorIs(t, lk.Close(), lockctx.ErrReleased) },
			func(lk *lockctx.Lock, tx *sql.Tx) {
				newLeaseTable(t, s).steal(lk.Key())
				require.ErrorIs(t, tx.Commit(), lockctx.ErrLost)
			},
		} {
			lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(ttl))
			tx, err := db.BeginTx(lk.Context(), nil)
			require.NoError(t, err)
			note(tx)
			end(lk, tx)
			_ = lk.Close()
			note(db)
		}
		for _, id := range ids {
			require.Equal(t, ids[0], id, "%v", ids)
		}
	})
}
