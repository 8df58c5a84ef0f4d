package lockctx_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// whoHolds matches what an error says of another process's lease: its owner and what is left of its time.
func whoHolds(local bool) *regexp.Regexp {
	who := "held by "
	if local {
		who = "held by this process"
	}
	return regexp.MustCompile(who + fmt.Sprintf(`.*:%d:[a-z2-7]+ for another (\d+(\.\d+)?m?s)+ unless renewed`, os.Getpid()))
}

func TestWhoDoesNotGetALeaseIsToldWhoHasItAndForHowLong(t *testing.T) {
	t.Parallel() // it waits for most of its time
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, other, key := open(t, view), open(t, view), dbtest.Key(t)
		lk := acquire(t, db, key, lockctx.Lease(20*time.Second))
		waits := map[string]struct {
			wait func() error
			is   error
		}{
			"TryAcquire": {func() error {
				_, err := lockctx.TryAcquire(testCtx(t), other, key, lockctx.Lease(time.Second))
				return err
			}, lockctx.ErrNotAcquired},
			"WithTimeout(0)": {func() error {
				_, err := lockctx.Acquire(testCtx(t), other, key, lockctx.Lease(time.Second), lockctx.WithTimeout(0))
				return err
			}, lockctx.ErrNotAcquired},
			"WithTimeout": {func() error {
				_, err := lockctx.Acquire(testCtx(t), other, key, lockctx.Lease(time.Second), lockctx.WithTimeout(600*time.Millisecond))
				return err
			}, lockctx.ErrNotAcquired},
			"AcquireAll": {func() error {
				_, err := lockctx.AcquireAll(testCtx(t), other, []string{key, key + "/free"}, lockctx.Lease(time.Second), lockctx.WithTimeout(600*time.Millisecond))
				return err
			}, lockctx.ErrNotAcquired},
			"a deadline": {func() error {
				ctx, cancel := context.WithTimeout(context.Background(), 600*time.Millisecond)
				defer cancel()
				_, err := lockctx.Acquire(ctx, other, key, lockctx.Lease(time.Second))
				return err
			}, context.DeadlineExceeded},
			"a cancel": {func() error {
				ctx, cancel := context.WithCancel(context.Background())
				time.AfterFunc(600*time.Millisecond, cancel)
				_, err := lockctx.Acquire(ctx, other, key, lockctx.Lease(time.Second))
				return err
			}, context.Canceled},
		}
		for name, w := range waits {
			var err error
			for range 3 { // the server's answer may be late on a busy machine
				began := time.Now()
				err = w.wait()
				require.Less(t, time.Since(began), promptly, name)
				require.ErrorIs(t, err, w.is, name)
				require.ErrorContains(t, err, key, name)
				if whoHolds(false).MatchString(err.Error()) {
					break
				}
			}
			require.Regexp(t, whoHolds(false), err.Error(), name)
			if name == "a cancel" || name == "TryAcquire" {
				t.Log(err)
			}
		}
		require.NoError(t, lk.Err())
		require.NoError(t, lk.Close())
		free, err := lockctx.Acquire(testCtx(t), other, key, lockctx.Lease(time.Second), lockctx.WithTimeout(0))
		require.NoError(t, err, "WithTimeout(0) gets what is free")
		require.NoError(t, free.Close())
	})
}

func TestWhoWaitsForALeaseOfHisOwnProcessIsToldSo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, key := open(t, s.CreateDatabase(t)), dbtest.Key(t)
		lk := acquire(t, db, key, lockctx.Lease(20*time.Second))
		for _, wait := range []time.Duration{0, 100 * time.Millisecond} {
			_, err := lockctx.Acquire(testCtx(t), db, key, lockctx.Lease(time.Second), lockctx.WithTimeout(wait))
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
			require.ErrorContains(t, err, key)
			require.ErrorContains(t, err, "held by this process")
		}
		require.NoError(t, lk.Close())
	})
}

func TestAContextThatHasEndedTakesNoLease(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, rows, key := open(t, view), newLeaseTable(t, view), dbtest.Key(t)
		require.NoError(t, acquire(t, db, key+"/other", lockctx.Lease(time.Second)).Close())
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		late, stop := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
		defer stop()
		for ctx, want := range map[context.Context]error{gone: context.Canceled, late: context.DeadlineExceeded} {
			for _, opts := range [][]lockctx.Option{{lockctx.Lease(time.Minute)}, {lockctx.Lease(time.Minute), lockctx.WithTimeout(0)}} {
				_, err := lockctx.Acquire(ctx, db, key, opts...)
				require.ErrorIs(t, err, want)
				require.ErrorContains(t, err, key)
				require.NotErrorIs(t, err, lockctx.ErrNotAcquired)
			}
		}
		_, found := rows.look(key)
		require.False(t, found, "a row was made of it")
	})
}

// The end of the context at any moment leaves no lease behind.
func TestAContextThatEndsMeanwhileLeavesNoLeaseHeld(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, rows, key := open(t, view), newLeaseTable(t, view), dbtest.Key(t)
		require.NoError(t, acquire(t, db, key, lockctx.Lease(time.Second)).Close())
		for i := range 200 {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(time.Duration(i)*10*time.Microsecond, cancel)
			lk, err := lockctx.Acquire(ctx, db, key, lockctx.Lease(time.Minute))
			if err == nil {
				err = lk.Close()
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			cancel()
		}
		require.Eventually(t, func() bool { return !rows.isHeld(key) }, promptly, 5*time.Millisecond)
		require.NoError(t, acquire(t, open(t, view), key, lockctx.Lease(time.Second)).Close())
	})
}
