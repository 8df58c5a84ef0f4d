package lockctx_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// An operator cancels statements, or ends sessions, at whatever moment of the fence, of COMMIT, or between: what
// Commit says of the transaction is true all the same, and stays so when the next one begins on the connection.
func TestWhatAFencedCommitSaysIsTrueUnderCancels(t *testing.T) {
	testWhatCommitSays(t, "KILL QUERY %d", "SELECT pg_cancel_backend(%d)")
}

func TestWhatAFencedCommitSaysIsTrueUnderKills(t *testing.T) {
	testWhatCommitSays(t, "KILL %d", "SELECT pg_terminate_backend(%d)")
}

func testWhatCommitSays(t *testing.T, mysql, postgres string) {
	for name, opts := range map[string][]driver.Option{
		"in one message":      nil,
		"one after the other": {driver.WithInterceptor(&rewriter{rewrite: asItIs})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				t.Parallel()
				view, tab := newTable(t, s)
				db := open(t, view, opts...)
				db.SetMaxOpenConns(1)
				lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
				text := mysql
				if !s.IsMySQL() {
					text = postgres
				}
				c := newCanceller(view.Open(t), text)
				said := map[int]error{}
				for id, end := 0, time.Now().Add(1500*time.Millisecond); time.Now().Before(end); id++ {
					tx, err := db.BeginTx(lk.Context(), &sql.TxOptions{Isolation: levels[id%len(levels)]})
					if err != nil {
						continue
					}
					var session int64
					if tx.QueryRow(idQuery(view)).Scan(&session) == nil && tab.insert(context.Background(), tx, id) == nil {
						c.target.Store(session)
						said[id] = tx.Commit()
						c.target.Store(0)
					} else {
						_ = tx.Rollback()
					}
				}
				c.stop()
				require.NoError(t, lk.Err())
				require.NoError(t, lk.Close())
				db.SetMaxIdleConns(0) // what they had open is rolled back
				requireTruth(t, said, tab.ids())
			})
		})
	}
}

// requireTruth compares what Commit said of the rows with those that are there.
func requireTruth(t *testing.T, said map[int]error, ids []int) {
	t.Helper()
	there := map[int]bool{}
	for _, id := range ids {
		there[id] = true
	}
	committed, unknown := 0, 0
	for id, err := range said {
		require.NotErrorIs(t, err, sqldriver.ErrBadConn)
		require.NotErrorIs(t, err, lockctx.ErrLost)
		switch {
		case errors.Is(err, lockctx.ErrOutcomeUnknown):
			unknown++
		case err == nil:
			committed++
			require.True(t, there[id], "row %d", id)
		default:
			require.False(t, there[id], "row %d is there, of which Commit said: %v", id, err)
		}
	}
	t.Logf("%d committed, %d refused, %d unknown", committed, len(said)-committed-unknown, unknown)
	require.NotEmpty(t, said)
}

// canceller sends the text with the session that is its target, again and again, while there is one.
type canceller struct {
	target atomic.Int64
	over   chan struct{}
	wg     sync.WaitGroup
}

func newCanceller(bare *sql.DB, text string) *canceller {
	c := &canceller{over: make(chan struct{})}
	for range 2 {
		c.wg.Go(func() {
			for {
				select {
				case <-c.over:
					return
				default:
				}
				if id := c.target.Load(); id != 0 {
					time.Sleep(rand.N(400 * time.Microsecond))
					_, _ = bare.Exec(fmt.Sprintf(text, id))
				} else {
					time.Sleep(20 * time.Microsecond)
				}
			}
		})
	}
	return c
}

func (c *canceller) stop() {
	close(c.over)
	c.wg.Wait()
}
