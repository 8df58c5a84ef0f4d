package lockctx_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// An operator cancels statements, at whatever moment of the fence, of COMMIT, or between: what Commit says of the
// transaction is true all the same, and stays so when the next one begins on the connection.
func TestWhatAFencedCommitSaysIsTrueUnderCancels(t *testing.T) {
	for name, opts := range map[string][]driver.Option{
		"in one message":      nil,
		"one after the other": {driver.WithInterceptor(&rewriter{rewrite: asItIs})},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				t.Parallel()
				view, tab := newTable(t, s)
				db := open(t, view, opts...)
				db.SetMaxOpenConns(1)
				lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(unrenewed))
				c := newCanceller(t, view)
				said := map[int]error{}
				end := time.Now().Add(2 * time.Second)
				for id := 0; time.Now().Before(end); id++ {
					tx, err := db.BeginTx(lk.Context(), &sql.TxOptions{Isolation: levels[id%len(levels)]})
					if err != nil {
						continue
					}
					var session int64
					err = tx.QueryRow(idQuery(view)).Scan(&session)
					c.target.Store(session)
					if err == nil && tab.insert(context.Background(), tx, id) == nil {
						c.begin()
						said[id] = tx.Commit()
						c.pause()
					} else {
						_ = tx.Rollback()
					}
				}
				c.stop()
				require.NoError(t, lk.Err())
				require.NoError(t, lk.Close())
				there := map[int]bool{}
				for _, id := range tab.ids() {
					there[id] = true
				}
				committed, refused := 0, 0
				for id, err := range said {
					switch {
					case errors.Is(err, lockctx.ErrOutcomeUnknown):
					case err == nil:
						committed++
						require.True(t, there[id], "row %d", id)
					default:
						refused++
						require.NotErrorIs(t, err, lockctx.ErrLost)
						require.NotErrorIs(t, err, sqldriver.ErrBadConn)
						require.False(t, there[id], "row %d is there, of which Commit said: %v", id, err)
					}
				}
				t.Logf("%d committed, %d refused, %d said", committed, refused, len(said))
			})
		})
	}
}

// canceller cancels the statements of a session, again and again, between begin and pause.
type canceller struct {
	target atomic.Int64
	on     atomic.Bool
	over   chan struct{}
	wg     sync.WaitGroup
}

func newCanceller(t *testing.T, view *dbtest.Server) *canceller {
	t.Helper()
	c := &canceller{over: make(chan struct{})}
	text := "KILL QUERY %d"
	if !view.IsMySQL() {
		text = "SELECT pg_cancel_backend(%d)"
	}
	bare := view.Open(t)
	for range 2 {
		c.wg.Go(func() {
			for {
				select {
				case <-c.over:
					return
				default:
				}
				if c.on.Load() {
					_, _ = bare.Exec(fmt.Sprintf(text, c.target.Load()))
				} else {
					time.Sleep(20 * time.Microsecond)
				}
			}
		})
	}
	return c
}

func (c *canceller) begin() { c.on.Store(true) }
func (c *canceller) pause() { c.on.Store(false) }
func (c *canceller) stop()  { close(c.over); c.wg.Wait() }
