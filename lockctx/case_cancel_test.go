package lockctx_test

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestC04_CloseReleasesAlthoughTheContextHasEnded(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out := open(t, s), newOutsider(t, s)
		ways := map[string]func() (context.Context, context.CancelFunc){
			"cancelled": func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) },
			"past its deadline": func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithTimeout(context.Background(), 150*time.Millisecond)
				return ctx, func() { <-ctx.Done(); cancel() }
			},
		}
		for name, way := range ways {
			t.Run(name, func(t *testing.T) {
				key := dbtest.Key(t)
				ctx, end := way()
				lk, err := lockctx.Acquire(ctx, db, key)
				require.NoError(t, err)
				end()
				<-lk.Context().Done()
				require.False(t, out.try(key), "the end of the context alone releases nothing")
				require.NoError(t, lk.Err())
				require.NoError(t, lk.Close())
				require.True(t, out.try(key))
			})
		}
	})
}

func TestC04_AContextThatEndsDuringTheReleaseDoesNotDisturbIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		relay, out := s.Relay(t), newOutsider(t, s)
		db, key := openDSN(t, relay.DSN()), dbtest.Key(t)
		for range 3 {
			ctx, cancel := context.WithCancel(context.Background())
			lk, err := lockctx.Acquire(ctx, db, key)
			require.NoError(t, err)
			relay.SetDelay(60 * time.Millisecond)
			time.AfterFunc(30*time.Millisecond, cancel)
			require.NoError(t, lk.Close())
			require.Error(t, ctx.Err(), "the release was over before the context")
			require.True(t, out.try(key))
			relay.SetDelay(0)
		}
		require.LessOrEqual(t, relay.Accepted(), int64(2), "besides the session's and the one that tests it: a connection was given up")
	})
}

func TestC04_DoAndInTxReleaseWhenTheirContextEndsInside(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		ctx, cancel := context.WithCancel(context.Background())
		err := lockctx.Do(ctx, db, key, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return db.PingContext(ctx)
		})
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, out.try(key))

		ctx, cancel = context.WithCancel(context.Background())
		err = lockctx.InTx(ctx, db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
			cancel()
			<-ctx.Done()
			return nil
		})
		require.Error(t, err, "nothing was committed")
		require.True(t, out.try(key))
	})
}

func TestC26_AnAcquireCancelledAtTheMomentOfTheGrantLeavesNoLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		waiting, other := open(t, s), open(t, s)
		out, holder := newOutsider(t, s), newOutsider(t, s)
		holders := map[string]func(key string) (release func()){
			"from a stranger": func(key string) func() {
				require.True(t, holder.take(key))
				return func() { holder.release(key) }
			},
			"from another process": func(key string) func() {
				lk := acquire(t, other, key)
				return func() { _ = lk.Close() }
			},
			"from the same process": func(key string) func() {
				lk := acquire(t, waiting, key)
				return func() { _ = lk.Close() }
			},
		}
		for name, take := range holders {
			t.Run(name, func(t *testing.T) {
				granted := 0
				for range c26Rounds / len(holders) {
					key := dbtest.Key(t)
					release := take(key)
					ctx, cancel := context.WithCancel(context.Background())
					done := make(chan bool, 1)
					go func() {
						lk, err := lockctx.Acquire(ctx, waiting, key)
						if err == nil {
							_ = lk.Close()
						}
						done <- err == nil
					}()
					pause(3 * time.Millisecond) // so that it waits, as often as not
					nearlyAtOnce(release, cancel)
					if <-done {
						granted++
					}
					out.free(key, gone)
				}
				t.Logf("granted in %d rounds", granted)
				require.LessOrEqual(t, stats(t, waiting).SessionsDialled, int64(c26Rounds/10), "giving up costs no connection")
			})
		}
	})
}

func TestC26_ATryAcquireCancelledOnItsWayLeavesNoLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out := open(t, s), newOutsider(t, s)
		for range c26Rounds {
			key := dbtest.Key(t)
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(rand.N(500*time.Microsecond), cancel)
			if lk, err := lockctx.TryAcquire(ctx, db, key); err == nil {
				require.NoError(t, lk.Close())
			}
			cancel()
			out.free(key, gone)
		}
	})
}

func TestC26_AnInTxCancelledAnywhereLeavesNoLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		for range c26Rounds {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(rand.N(2*time.Millisecond), cancel)
			_ = lockctx.InTx(ctx, db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "SELECT 1")
				return err
			})
			cancel()
			out.free(key, gone)
		}
	})
}

// gone is within what time a lock that was given up is free: twice what is owed, for a busy machine.
const gone = 4 * time.Second

// c26Rounds is how often each of C26's races is run on a server.
const c26Rounds = 500

// nearlyAtOnce begins both within 500 µs of each other, either one first.
func nearlyAtOnce(a, b func()) {
	if rand.N(2) == 0 {
		a, b = b, a
	}
	var first sync.WaitGroup
	first.Go(a)
	pause(500 * time.Microsecond)
	b()
	first.Wait()
}

// pause lets up to d pass.
func pause(d time.Duration) { time.Sleep(rand.N(d)) }
