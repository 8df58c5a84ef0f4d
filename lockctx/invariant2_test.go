package lockctx_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// crowd runs many statements on db at once, without any lock's context, until stop is called, which
// returns the sessions that they ran on.
func crowd(t testing.TB, s *dbtest.Server, db *sql.DB) (stop func() map[int64]bool) {
	var (
		mu   sync.Mutex
		seen = map[int64]bool{}
		errs []error
		wg   sync.WaitGroup
		done = make(chan struct{})
	)
	see := func(q asker) {
		var id int64
		err := q.QueryRowContext(context.Background(), idQuery(s)).Scan(&id)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, err)
		}
		seen[id] = true
	}
	for i := range 8 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				switch i % 3 {
				case 0:
					see(db)
				case 1:
					if tx, err := db.Begin(); err == nil {
						see(tx)
						_ = tx.Commit()
					}
				case 2:
					if c, err := db.Conn(context.Background()); err == nil {
						see(c)
						_ = c.Close()
					}
				}
			}
		})
	}
	return func() map[int64]bool {
		t.Helper()
		close(done)
		wg.Wait()
		require.Empty(t, errs)
		return seen
	}
}

func TestI2_NobodyElseGetsTheSessionOfALockFromThePool(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s)
		stop := crowd(t, s, db)
		locked := map[int64]bool{}
		for range 10 {
			first, second := acquire(t, db, dbtest.Key(t)), acquire(t, db, dbtest.Key(t))
			for _, lk := range []*lockctx.Lock{first, second} {
				locked[sessionID(t, s, db, lk)] = true
				tx, err := db.BeginTx(lk.Context(), nil)
				require.NoError(t, err)
				locked[askID(testCtx(t), t, s, tx)] = true
				require.NoError(t, tx.Commit())
			}
			require.NoError(t, first.Close())
			require.NoError(t, second.Close())
		}
		for id := range stop() {
			require.NotContains(t, locked, id)
		}
	})
}

func TestI2_AConnThatServedALockGoesBackToItsOwnSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s)
		db.SetMaxOpenConns(1)
		own := askID(testCtx(t), t, s, db)
		c, err := db.Conn(testCtx(t))
		require.NoError(t, err)
		lk := acquire(t, db, dbtest.Key(t))
		locked := askID(lk.Context(), t, s, c)
		require.NotEqual(t, own, locked)
		require.Equal(t, own, askID(testCtx(t), t, s, c))
		require.NoError(t, c.Close())

		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		s.KillSession(t, locked)
		requireLost(t, lk)
		_ = tx.Rollback()
		require.Equal(t, own, askID(testCtx(t), t, s, db), "the pool's connection did not suffer")
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}

func TestI2_TheSessionOfALockConnIsNotLeftInThePool(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s)
		lk := acquire(t, db, dbtest.Key(t))
		locked := sessionID(t, s, db, lk)
		for range 3 {
			c, err := lk.Conn(testCtx(t))
			require.NoError(t, err)
			require.Equal(t, locked, askID(testCtx(t), t, s, c))
			require.NoError(t, c.Close())
		}
		_, err := lk.DB().ExecContext(testCtx(t), "SELECT 1")
		require.ErrorIs(t, err, lockctx.ErrUnsupported, "without the lock's context its DB has nowhere to run")
		require.NotEqual(t, locked, askID(testCtx(t), t, s, db))
		require.NoError(t, lk.Close())
		c, err := lk.DB().Conn(testCtx(t))
		require.NoError(t, err)
		require.ErrorIs(t, c.PingContext(lk.Context()), lockctx.ErrReleased)
		require.NoError(t, c.Close())
	})
}

// rawLock takes a lock of that name as SQL text, in one of the ways that programs have.
func rawLock(t testing.TB, s *dbtest.Server, key string) (text, placeholder string, arg any) {
	t.Helper()
	if s.IsMySQL() {
		name := lockName(t, key)
		return "SELECT GET_LOCK('" + name + "', 0)", "SELECT GET_LOCK(?, 0)", name
	}
	id := lockID(t, key)
	return fmt.Sprintf("SELECT pg_advisory_lock(%d)", id), "SELECT pg_advisory_lock($1)", id
}

func TestI2_RawLocksTakenUnderALockAreGoneBeforeItsSessionIsUsedAgain(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, db *sql.DB, lk *lockctx.Lock){
		"Close": func(t *testing.T, _ *sql.DB, lk *lockctx.Lock) { require.NoError(t, lk.Close()) },
		"Close with a waiter here": func(t *testing.T, db *sql.DB, lk *lockctx.Lock) {
			waiter := waitFor(testCtx(t), t, db, lk.Key())
			require.NoError(t, lk.Close())
			next := within(t, waiter, promptly, "the waiter")
			require.NoError(t, next.err)
			require.NoError(t, next.lk.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				db, out := open(t, s), newOutsider(t, s)
				byText, byArg, byTx, byStmt := dbtest.Key(t), dbtest.Key(t), dbtest.Key(t), dbtest.Key(t)
				lk := acquire(t, db, dbtest.Key(t))

				query, _, _ := rawLock(t, s, byText)
				_, err := db.ExecContext(lk.Context(), query)
				require.NoError(t, err)
				_, query, arg := rawLock(t, s, byArg)
				_, err = db.ExecContext(lk.Context(), query, arg)
				require.NoError(t, err)
				stmt, err := db.PrepareContext(testCtx(t), query)
				require.NoError(t, err)
				_, _, arg = rawLock(t, s, byStmt)
				_, err = stmt.ExecContext(lk.Context(), arg)
				require.NoError(t, err)
				require.NoError(t, stmt.Close())
				tx, err := db.BeginTx(lk.Context(), nil)
				require.NoError(t, err)
				query, _, _ = rawLock(t, s, byTx)
				_, err = tx.Exec(query)
				require.NoError(t, err)
				require.NoError(t, tx.Commit())
				own, _, _ := rawLock(t, s, lk.Key()) // once more: on every server locks stack
				_, err = db.ExecContext(lk.Context(), own)
				require.NoError(t, err)

				keys := []string{byText, byArg, byTx, byStmt, lk.Key()}
				for _, key := range keys {
					require.False(t, out.try(key))
				}
				leave(t, db, lk)
				for _, key := range keys {
					require.True(t, out.try(key), "the lock %q stayed on the session", key)
				}
			})
		})
	}
}
