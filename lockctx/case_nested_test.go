package lockctx_test

import (
	"context"
	"database/sql"
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
							out.free(k, 2*time.Second)
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
				out.free(k, 2*time.Second)
			}
		}
		dialled := stats(t, db).SessionsDialled
		t.Logf("%d sessions dialled", dialled)
		require.LessOrEqual(t, dialled, int64(rounds/4), "giving up costs no connection")
	})
}

// Whatever is asked for, and from where, a wait takes as long and ends with the
// same words.
func TestC28_ATimeoutMeansTheSameForEveryWayToALock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		require.True(t, out.take(key))
		defer out.release(key)
		holder := strconv.FormatInt(out.holder(key), 10)
		bg := context.Background()
		// Each wait is on a session of its own: what is left of a slice of one
		// that is over would keep the next from asking.
		under := func() context.Context {
			lk := acquire(t, db, dbtest.Key(t))
			t.Cleanup(func() { require.NoError(t, lk.Close()) })
			return lk.Context()
		}
		inTx := acquire(t, db, dbtest.Key(t))
		tx, err := db.BeginTx(inTx.Context(), nil)
		require.NoError(t, err)
		ways := map[string]func(lockctx.Option) error{
			"AcquireAll": func(o lockctx.Option) error {
				_, err := lockctx.AcquireAll(bg, db, []string{key, key + ":1", key + ":2"}, o)
				return err
			},
			"Do":   func(o lockctx.Option) error { return lockctx.Do(bg, db, key, nil, o) },
			"InTx": func(o lockctx.Option) error { return lockctx.InTx(bg, db, key, nil, nil, o) },
			"under a lock": func(o lockctx.Option) error {
				_, err := lockctx.Acquire(under(), db, key, o)
				return err
			},
			"AcquireAll under a lock": func(o lockctx.Option) error {
				_, err := lockctx.AcquireAll(under(), db, []string{key, key + ":1", key + ":2"}, o)
				return err
			},
			"InTx under a lock": func(o lockctx.Option) error { return lockctx.InTx(under(), db, key, nil, nil, o) },
			"in a transaction": func(o lockctx.Option) error {
				_, err := lockctx.Acquire(inTx.Context(), db, key, o)
				return err
			},
		}
		for name, way := range ways {
			require.ErrorContains(t, way(lockctx.WithTimeout(-1)), "negative", name)
			for _, d := range []time.Duration{0, 1, 200 * time.Millisecond, 1200 * time.Millisecond} {
				inTime(t, name+" "+d.String(), d, func() {
					err := way(lockctx.WithTimeout(d))
					require.ErrorIs(t, err, lockctx.ErrNotAcquired, name)
					require.NotErrorIs(t, err, context.DeadlineExceeded, name)
					require.ErrorContains(t, err, key, name)
					if d != 1 && name != "in a transaction" { // a nanosecond is not enough to ask, and a transaction is the user's
						require.ErrorContains(t, err, holder, "%s, %v: the error names the holder", name, d)
					}
				})
			}
		}
		require.NoError(t, tx.Commit())
		require.NoError(t, inTx.Close())
	})
}
