package lockctx_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"

	lockdb "github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// bomb is an interceptor that goes off: code of a user's within the driver, as a
// pgx codec of his is, too.
type bomb struct {
	sqlmw.NullInterceptor
	where atomic.Pointer[string] // a part of a statement, or "next", "commit"
	blast func()
}

func (b *bomb) at(where string) {
	if armed := b.where.Load(); armed != nil && strings.Contains(where, *armed) {
		b.where.Store(nil)
		b.blast()
	}
}

func (b *bomb) ConnQueryContext(ctx context.Context, conn driver.QueryerContext, query string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	rows, err := conn.QueryContext(ctx, query, args)
	b.at(query)
	return context.WithValue(ctx, b, query), rows, err
}

func (b *bomb) ConnExecContext(ctx context.Context, conn driver.ExecerContext, query string, args []driver.NamedValue) (driver.Result, error) {
	res, err := conn.ExecContext(ctx, query, args)
	b.at(query)
	return res, err
}

func (b *bomb) RowsNext(ctx context.Context, rows driver.Rows, dest []driver.Value) error {
	if query, _ := ctx.Value(b).(string); strings.Contains(query, "7") {
		b.at("next")
	}
	return rows.Next(dest)
}

func (b *bomb) TxCommit(_ context.Context, tx driver.Tx) error {
	b.at("commit")
	return tx.Commit()
}

func TestAPanicInTheDriverCostsTheSessionAndNothingElse(t *testing.T) {
	blasts := map[string]func(){"panic": func() { panic("in the driver") }, "Goexit": runtime.Goexit}
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		lock, unlock := "GET_LOCK(", "RELEASE_LOCK("
		if !s.IsMySQL() {
			lock, unlock = "pg_try_advisory_lock(", "pg_advisory_unlock("
		}
		// Not among them: a statement in a transaction, after which database/sql waits for itself for ever.
		works := map[string]func(ctx context.Context, db *sql.DB, key string) error{
			lock: func(ctx context.Context, db *sql.DB, key string) error {
				_, err := lockctx.TryAcquire(ctx, db, key)
				return err
			},
			unlock: func(ctx context.Context, db *sql.DB, key string) error {
				return lockctx.Do(ctx, db, key, func(context.Context) error { return nil })
			},
			"SELECT 5": func(ctx context.Context, db *sql.DB, key string) error {
				return lockctx.Do(ctx, db, key, func(ctx context.Context) error {
					_, err := db.ExecContext(ctx, "SELECT 5")
					return err
				})
			},
			"next": func(ctx context.Context, db *sql.DB, key string) error {
				return lockctx.Do(ctx, db, key, func(ctx context.Context) error {
					return db.QueryRowContext(ctx, "SELECT 7").Scan(new(int))
				})
			},
			"commit": func(ctx context.Context, db *sql.DB, key string) error {
				return lockctx.InTx(ctx, db, key, nil, func(context.Context, *sql.Tx) error { return nil })
			},
		}
		for name, blast := range blasts {
			for where, work := range works {
				t.Run(name+" at "+where, func(t *testing.T) {
					b := &bomb{blast: blast}
					db, out, key := open(t, s, lockdb.WithInterceptor(b)), newOutsider(t, s), dbtest.Key(t)
					require.NoError(t, work(testCtx(t), db, key+"/before"))
					if where == lock { // the lock of the one before is none of this
						require.NoError(t, acquire(t, db, key).Close())
					}
					b.where.Store(&where)
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						defer func() { _ = recover() }()
						_ = work(testCtx(t), db, key)
						t.Error("it did not go off")
					}()
					within(t, ended, promptly, "the end of the work")
					out.free(key, promptly)
					lk, err := lockctx.Acquire(testCtx(t), db, key, lockctx.WithTimeout(promptly))
					require.NoError(t, err)
					require.NoError(t, db.PingContext(lk.Context()))
					require.NoError(t, lk.Close())
					require.NoError(t, within(t, async(db.Close), promptly, "Close of the database"))
				})
			}
		}
	})
}
