package lockctx_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// What a holder left open was ended by Close. What he does with it afterwards must not wait for the
// statements of the next holder, who has the session.
func TestWhatIsStaleDoesNotWaitForTheNextHoldersStatements(t *testing.T) {
	for name, begin := range map[string]func(*testing.T, *dbtest.Server, *lockctx.Lock) (use func()){
		"a result set": func(t *testing.T, s *dbtest.Server, lk *lockctx.Lock) func() {
			rows, err := lk.DB().QueryContext(context.WithoutCancel(lk.Context()), manyRows(s, 100*rowSize))
			require.NoError(t, err)
			require.True(t, rows.Next())
			return func() {
				for rows.Next() { //nolint:revive // to its end
				}
				require.ErrorIs(t, rows.Err(), lockctx.ErrReleased)
				require.NoError(t, rows.Close())
			}
		},
		"an unread result set": func(t *testing.T, s *dbtest.Server, lk *lockctx.Lock) func() {
			rows, err := lk.DB().QueryContext(context.WithoutCancel(lk.Context()), manyRows(s, 100*rowSize))
			require.NoError(t, err)
			return func() { require.NoError(t, rows.Close()) }
		},
		"a transaction": func(t *testing.T, _ *dbtest.Server, lk *lockctx.Lock) func() {
			tx, err := lk.DB().BeginTx(context.WithoutCancel(lk.Context()), nil)
			require.NoError(t, err)
			return func() {
				_, err := tx.Exec("SELECT 1")
				require.ErrorIs(t, err, lockctx.ErrReleased)
				require.ErrorIs(t, tx.Commit(), lockctx.ErrReleased)
			}
		},
		"a transaction to be rolled back": func(t *testing.T, _ *dbtest.Server, lk *lockctx.Lock) func() {
			tx, err := lk.DB().BeginTx(context.WithoutCancel(lk.Context()), nil)
			require.NoError(t, err)
			return func() { _ = tx.Rollback() }
		},
		"a prepared statement": func(t *testing.T, _ *dbtest.Server, lk *lockctx.Lock) func() {
			stmt, err := lk.DB().PrepareContext(lk.Context(), "SELECT 1")
			require.NoError(t, err)
			t.Cleanup(func() { _ = stmt.Close() })
			return func() {
				_, err := stmt.ExecContext(context.WithoutCancel(lk.Context()))
				require.ErrorIs(t, err, lockctx.ErrReleased)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				t.Parallel()
				view := s.CreateDatabase(t)
				db := open(t, view)
				lk := acquire(t, db, dbtest.Key(t))
				session := sessionID(t, s, db, lk)
				waiter := waitFor(testCtx(t), t, db, lk.Key())
				use := begin(t, s, lk)
				_ = lk.Close() // it tells of a transaction
				next := within(t, waiter, promptly, "the hand-off")
				require.NoError(t, next.err)
				slept := async(func() error {
					_, err := next.lk.DB().ExecContext(next.lk.Context(), sleepQuery(s, 3))
					return err
				})
				require.Eventually(t, func() bool { return sleeps(t, view, session) }, promptly, time.Millisecond,
					"the session was to be handed on")
				began := time.Now()
				use()
				require.Less(t, time.Since(began), 2*time.Second)
				require.NoError(t, within(t, slept, promptly, "the next holder's statement"))
				require.NoError(t, next.lk.Close())
			})
		})
	}
}
