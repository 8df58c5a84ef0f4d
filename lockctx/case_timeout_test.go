package lockctx_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// waits is C28's table, but for the durations that are no wait.
var waits = []time.Duration{0, 1, 200 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond}

// tolerance is how far from the duration given a wait may end.
const tolerance = 50 * time.Millisecond

func TestC28_ATimeoutOnAFreeLockIsNotWaitedFor(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := open(t, s)
		require.NoError(t, acquire(t, db, dbtest.Key(t)).Close()) // a session is there
		for _, d := range append(waits, math.MaxInt64) {
			inTime(t, d.String(), 0, func() {
				lk, err := lockctx.Acquire(context.Background(), db, dbtest.Key(t), lockctx.WithTimeout(d))
				require.NoError(t, err, "%v", d)
				require.NoError(t, lk.Close())
			})
		}
	})
}

func TestC28_AShortTimeoutMeetsAFreeLockAlsoWhenASessionMustBeOpened(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for _, d := range append(waits, math.MaxInt64) {
			db := open(t, s)
			lk, err := lockctx.Acquire(context.Background(), db, dbtest.Key(t), lockctx.WithTimeout(d))
			if d == 1 && errors.Is(err, lockctx.ErrNotAcquired) {
				continue // the dial took longer than what it is given beyond the timeout
			}
			require.NoError(t, err, "%v", d)
			require.NoError(t, lk.Close())
		}
	})
}

func TestC28_ATimeoutOnAHeldLockEndsAfterThatTime(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db := open(t, s)
		refused := func(t *testing.T, key string) {
			for _, d := range waits {
				inTime(t, d.String(), d, func() {
					_, err := lockctx.Acquire(context.Background(), db, key, lockctx.WithTimeout(d))
					require.ErrorIs(t, err, lockctx.ErrNotAcquired)
					require.NotErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorContains(t, err, key)
				})
			}
			inTime(t, "TryAcquire", 0, func() {
				_, err := lockctx.TryAcquire(context.Background(), db, key, lockctx.WithTimeout(1500*time.Millisecond))
				require.ErrorIs(t, err, lockctx.ErrNotAcquired)
			})
		}
		t.Run("by a stranger", func(t *testing.T) {
			t.Parallel()
			key, out := dbtest.Key(t), newOutsider(t, s)
			require.True(t, out.take(key))
			refused(t, key)
			out.release(key)
		})
		t.Run("by this process", func(t *testing.T) {
			t.Parallel()
			key := dbtest.Key(t)
			lk := acquire(t, db, key)
			refused(t, key)
			require.NoError(t, lk.Close())
		})
	})
}

func TestC28_TheLongestTimeoutWaitsUntilTheLockIsFree(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out := open(t, s), newOutsider(t, s)
		key := dbtest.Key(t)
		require.True(t, out.take(key))
		got := make(chan error, 1)
		go func() {
			lk, err := lockctx.Acquire(testCtx(t), db, key, lockctx.WithTimeout(math.MaxInt64))
			if err == nil {
				err = lk.Close()
			}
			got <- err
		}()
		select {
		case err := <-got:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(1200 * time.Millisecond): // more than one slice
		}
		out.release(key)
		require.NoError(t, <-got)
	})
}

func TestC28_ANegativeTimeoutIsAnErrorBeforeTheServerIsAsked(t *testing.T) {
	db := openDSN(t, "root@tcp(127.0.0.1:1)/nowhere") // nobody is there to ask
	for _, d := range []time.Duration{-1, -time.Second, math.MinInt64} {
		for _, acquire := range []acquirer{lockctx.Acquire, lockctx.TryAcquire} {
			_, err := acquire(context.Background(), db, "k", lockctx.WithTimeout(d))
			require.ErrorContains(t, err, "negative")
			require.NotErrorIs(t, err, lockctx.ErrNotAcquired)
			require.NotContains(t, err.Error(), "127.0.0.1")
		}
	}
}

func TestC28_AContextThatEndsBeforeTheTimeoutIsTheReasonGiven(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s), dbtest.Key(t)
		lk := acquire(t, db, key)
		inTime(t, "the context's", 200*time.Millisecond, func() {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			_, err := lockctx.Acquire(ctx, db, key, lockctx.WithTimeout(5*time.Second))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, lockctx.ErrNotAcquired)
		})
		require.NoError(t, lk.Close())
	})
}

// inTime requires that call takes d: never less, and not more than the
// tolerance beyond, which other work on the machine may spoil a few times.
func inTime(t *testing.T, what string, d time.Duration, call func()) {
	t.Helper()
	inTimeOnce(t, what, d, func() (ready func()) { return call })
}

// inTimeOnce is inTime of a call that prepare makes ready each time.
func inTimeOnce(t *testing.T, what string, d time.Duration, prepare func() (call func())) {
	t.Helper()
	var took time.Duration
	for range 10 {
		call := prepare()
		start := time.Now()
		call()
		if took = time.Since(start); took < d {
			break
		}
		if took <= d+tolerance {
			return
		}
	}
	t.Fatalf("%s: it took %v instead of %v", what, took, d)
}

func TestC28_ARefusedAcquireDoesNotOutliveItsContextToLearnWhoHoldsTheLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		relay, out, key := s.Relay(t), newOutsider(t, s), dbtest.Key(t)
		db := openDSN(t, relay.DSN())
		require.NoError(t, acquire(t, db, key).Close()) // a session is there
		opened := relay.Accepted()
		require.True(t, out.take(key))
		relay.SetDelay(200 * time.Millisecond)
		for _, timeout := range []time.Duration{0, time.Minute} { // to try, and to wait
			inTime(t, timeout.String(), 450*time.Millisecond, func() {
				ctx, cancel := context.WithTimeout(context.Background(), 450*time.Millisecond)
				defer cancel()
				_, err := lockctx.Acquire(ctx, db, key, lockctx.WithTimeout(timeout))
				// The refusal is here after 400 ms, the holder's name later.
				if timeout > 0 || !errors.Is(err, lockctx.ErrNotAcquired) {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
			})
		}
		relay.SetDelay(0)
		out.release(key)
		require.NoError(t, acquire(t, db, key).Close())
		require.Equal(t, opened, relay.Accepted(), "the session was given up")
	})
}
