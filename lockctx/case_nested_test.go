package lockctx_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestC26_AFurtherLockCancelledAtTheMomentOfTheGrantIsNotLeftBehind(t *testing.T) {
	const rounds = 60
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		takes := map[string]func(context.Context, *sql.DB, string) (*lockctx.Lock, error){
			"a nested lock": func(ctx context.Context, db *sql.DB, key string) (*lockctx.Lock, error) {
				return lockctx.Acquire(ctx, db, key)
			},
			"one of several nested locks": func(ctx context.Context, db *sql.DB, key string) (*lockctx.Lock, error) {
				return lockctx.AcquireAll(ctx, db, []string{key + ":1", key, key + ":2"})
			},
		}
		for name, take := range takes {
			for _, inTx := range []bool{false, true} {
				t.Run(name+", in a transaction: "+strconv.FormatBool(inTx), func(t *testing.T) {
					db, out, holder := open(t, s), newOutsider(t, s), newOutsider(t, s)
					outer := acquire(t, db, dbtest.Key(t))
					if inTx {
						tx, err := db.BeginTx(outer.Context(), nil)
						require.NoError(t, err)
						defer func() { require.NoError(t, tx.Commit()) }()
					}
					granted := 0
					for range rounds {
						key := dbtest.Key(t)
						require.True(t, holder.take(key))
						ctx, cancel := context.WithCancel(outer.Context())
						done := async(func() bool {
							lk, err := take(ctx, db, key)
							if err == nil {
								err = lk.Close()
							}
							return err == nil
						})
						pause(3 * time.Millisecond)
						nearlyAtOnce(func() { holder.release(key) }, cancel)
						if within(t, done, promptly, "the end of the wait") {
							granted++
						}
						for _, k := range []string{key, key + ":1", key + ":2"} {
							out.free(k, gone)
						}
					}
					t.Logf("granted in %d rounds", granted)
					require.NoError(t, outer.Err())
					require.LessOrEqual(t, stats(t, db).SessionsDialled, int64(2), "a connection was given up")
				})
			}
		}
	})
}

func TestC26_SeveralLocksCancelledAtTheMomentOfTheGrantAreNotLeftBehind(t *testing.T) {
	const rounds = 100
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, holder := open(t, s), newOutsider(t, s), newOutsider(t, s)
		for range rounds {
			key := dbtest.Key(t)
			keys := []string{key + ":1", key + ":2", key + ":3"}
			require.True(t, holder.take(keys[1]))
			ctx, cancel := context.WithCancel(context.Background())
			done := async(func() error {
				lk, err := lockctx.AcquireAll(ctx, db, keys)
				if err == nil {
					err = lk.Close()
				}
				return err
			})
			pause(3 * time.Millisecond)
			nearlyAtOnce(func() { holder.release(keys[1]) }, cancel)
			if err := within(t, done, promptly, "the end of the wait"); err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
			for _, k := range keys {
				out.free(k, gone)
			}
		}
		dialled := stats(t, db).SessionsDialled
		t.Logf("%d sessions dialled", dialled)
		require.LessOrEqual(t, dialled, int64(rounds/2), "giving up costs no connection")
	})
}

// Whatever is asked for, and from where, a wait takes as long and ends with the
// same words.
func TestC28_ATimeoutMeansTheSameForEveryWayToALock(t *testing.T) {
	const inATx = "in a transaction"
	plainly := func(*testing.T, *sql.DB) context.Context { return context.Background() }
	// Each wait is on a session of its own: what is left of a slice of one that is
	// over would keep the next from asking.
	underLock := func(t *testing.T, db *sql.DB) context.Context {
		lk := acquire(t, db, dbtest.Key(t))
		t.Cleanup(func() { require.NoError(t, lk.Close()) })
		return lk.Context()
	}
	underTx := func(t *testing.T, db *sql.DB) context.Context {
		ctx := underLock(t, db)
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tx.Commit()) })
		return ctx
	}
	acquireOne := func(ctx context.Context, db *sql.DB, key string, o lockctx.Option) error {
		_, err := lockctx.Acquire(ctx, db, key, o)
		return err
	}
	acquireAll := func(ctx context.Context, db *sql.DB, key string, o lockctx.Option) error {
		other := fmt.Sprint(key, ":", rand.Int64()) // not one that the wait before is about to let go of
		_, err := lockctx.AcquireAll(ctx, db, []string{key, other + ":1", other + ":2"}, o)
		return err
	}
	runInTx := func(ctx context.Context, db *sql.DB, key string, o lockctx.Option) error {
		return lockctx.InTx(ctx, db, key, nil, nil, o)
	}
	ways := map[string]struct {
		under func(*testing.T, *sql.DB) context.Context
		wait  func(context.Context, *sql.DB, string, lockctx.Option) error
	}{
		"AcquireAll": {plainly, acquireAll},
		"Do": {plainly, func(ctx context.Context, db *sql.DB, key string, o lockctx.Option) error {
			return lockctx.Do(ctx, db, key, nil, o)
		}},
		"InTx":                    {plainly, runInTx},
		"under a lock":            {underLock, acquireOne},
		"AcquireAll under a lock": {underLock, acquireAll},
		"InTx under a lock":       {underLock, runInTx},
		inATx:                     {underTx, acquireOne},
	}
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for name, way := range ways {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
				require.True(t, out.take(key))
				holder := strconv.FormatInt(out.holder(key), 10)
				require.ErrorContains(t, way.wait(way.under(t, db), db, key, lockctx.WithTimeout(-1)), "negative")
				for _, d := range []time.Duration{0, 1, 200 * time.Millisecond, 1200 * time.Millisecond} {
					inTimeOnce(t, d.String(), d, func() func() {
						ctx := way.under(t, db)
						return func() {
							err := way.wait(ctx, db, key, lockctx.WithTimeout(d))
							require.ErrorIs(t, err, lockctx.ErrNotAcquired)
							require.NotErrorIs(t, err, context.DeadlineExceeded)
							require.ErrorContains(t, err, key)
							if d != 1 && name != inATx { // a nanosecond is not enough to ask, and a transaction is the user's
								require.ErrorContains(t, err, holder, "%v: the error names the holder", d)
							}
						}
					})
				}
				out.release(key)
			})
		}
	})
}
