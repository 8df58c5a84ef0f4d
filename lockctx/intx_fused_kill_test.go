package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// A KILL QUERY can meet each statement of InTx's, those that take and release the lock too.
func TestInTxUnderCancelsTellsWhatItCommittedAndLeavesNothingOpen(t *testing.T) {
	eachFusing(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		db, key, out := open(t, view, driver.WithMaxIdleSessions(1)), dbtest.Key(t), newOutsider(t, s)
		var victim atomic.Int64
		stop := make(chan struct{})
		var cancellers sync.WaitGroup
		killer := s.Open(t)
		for range 3 {
			cancellers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_, _ = killer.Exec(fmt.Sprintf("KILL QUERY %d", victim.Load())) // it may have ended
					}
				}
			})
		}
		mine, outcome := errors.New("mine"), map[int]error{}
		var done, cancelled, unknown int
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
			id := len(outcome)
			err := lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
				var session int64
				if err := tx.QueryRowContext(ctx, idQuery(s)).Scan(&session); err != nil {
					return err
				}
				victim.Store(session)
				if err := tab.insert(ctx, tx, id); err != nil || id%4 != 0 {
					return err
				}
				return mine
			})
			outcome[id] = err
			switch {
			case err == nil:
				done++
			case errors.Is(err, lockctx.ErrOutcomeUnknown):
				unknown++
			case !errors.Is(err, mine):
				cancelled++
			}
			out.free(key, promptly) // the session may have been closed, whose end the server sees a moment later
			id++
			wrote := false
			_ = lockctx.Do(testCtx(t), db, key, func(ctx context.Context) error {
				lk, _ := lockctx.FromContext(ctx)
				if wrote = tab.insert(ctx, lk.DB(), id) == nil; wrote {
					require.Contains(t, tab.ids(), id, "a single statement was not committed")
				}
				return nil
			})
			if outcome[id] = nil; !wrote {
				outcome[id] = lockctx.ErrOutcomeUnknown
			}
		}
		close(stop)
		cancellers.Wait()
		t.Logf("%d committed, %d cancelled, %d unknown", done, cancelled, unknown)
		require.NotZero(t, done)
		require.NotZero(t, cancelled)
		there := tab.ids()
		for id, err := range outcome {
			if !errors.Is(err, lockctx.ErrOutcomeUnknown) {
				require.Equal(t, err == nil, slices.Contains(there, id), "of row %d was said: %v", id, err)
			}
		}
	})
}

// A COMMIT that waits, as for a backup, and is cancelled then.
func TestInTxWhoseCommitIsCancelledIsNotSaidToBeDoneAndReleases(t *testing.T) {
	for _, k := range []dbtest.Kind{dbtest.MySQL, dbtest.MariaDB} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			view, tab := newTable(t, dbtest.Private(t, k))
			db, key, out := open(t, view), dbtest.Key(t), newOutsider(t, view)
			backup := view.Open(t)
			backup.SetMaxOpenConns(1) // whose session has the global lock
			var id int64
			commit := async(func() error {
				return lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
					id = askID(ctx, t, view, tx)
					if err := tab.insert(ctx, tx, 1); err != nil {
						return err
					}
					_, err := backup.ExecContext(ctx, "FLUSH TABLES WITH READ LOCK")
					return err
				})
			})
			require.Eventually(t, func() bool {
				return slices.ContainsFunc(view.Sessions(t), func(s dbtest.Session) bool {
					return strings.Contains(s.Query, "COMMIT") && strings.Contains(s.State, "lock")
				})
			}, promptly, time.Millisecond)
			_, err := backup.Exec(fmt.Sprintf("KILL QUERY %d", id))
			require.NoError(t, err)
			err = within(t, commit, promptly, "the end of the COMMIT")
			require.Error(t, err)
			// MariaDB has rolled back when it says so; that the COMMIT was not yet through shows in nothing.
			require.Equal(t, k == dbtest.MariaDB, errors.Is(err, lockctx.ErrOutcomeUnknown), "%v", err)
			_, err = backup.Exec("UNLOCK TABLES")
			require.NoError(t, err)
			require.Empty(t, tab.ids())
			out.free(key, promptly)
			require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
				return tab.insert(ctx, tx, 2)
			}))
			require.Equal(t, []int{2}, tab.ids())
		})
	}
}
