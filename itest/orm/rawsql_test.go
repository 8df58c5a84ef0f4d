package orm_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// inRounds has the lock taken and released, again and again, and asks from
// outside in between. Others use the pool meanwhile, and are a few more than it
// has connections.
func inRounds(t *testing.T, rounds int, s server, c client, l lockText, take, release func() (bool, error)) {
	t.Helper()
	c.db().SetMaxOpenConns(4)
	ctx, cancel := context.WithCancel(context.Background())
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	for range 5 {
		others.Go(func() {
			for ctx.Err() == nil {
				_, _ = c.session(ctx)
			}
		})
	}
	for range rounds {
		yes, err := take()
		require.NoError(t, err)
		require.True(t, yes, "not granted")
		require.False(t, s.free(t, l), "free while it is held")
		yes, err = release()
		require.NoError(t, err)
		require.True(t, yes, "not released")
		require.True(t, s.free(t, l), "held after its release")
	}
}

func TestALockTakenByTextThroughALibraryIsHeldUntilItIsReleasedSo(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, _ int64) {
		l, w := s.lockText(t), c.(textWork)
		inRounds(t, 20, s, c, l,
			func() (bool, error) { return w.tells(testCtx(t), l.take, l.arg) },
			func() (bool, error) { return w.tells(testCtx(t), l.release, l.arg) })
	})
}

func TestALockTakenByTextInALibrarysTransactionIsHeldInIt(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, _ int64) {
		l := s.lockText(t)
		var tx transaction
		inRounds(t, 6, s, c, l,
			func() (granted bool, err error) {
				if tx, err = c.begin(testCtx(t)); err != nil {
					return false, err
				}
				return tx.(textWork).tells(testCtx(t), l.take, l.arg)
			},
			func() (bool, error) {
				released, err := tx.(textWork).tells(testCtx(t), l.release, l.arg)
				if err != nil {
					return false, err
				}
				return released, tx.commit()
			})
	})
}

func TestALockLeftByTextInALibrarysTransactionEndsWithIt(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, _ int64) {
		l := s.lockText(t)
		var tx transaction
		round := 0
		inRounds(t, 6, s, c, l,
			func() (granted bool, err error) {
				if tx, err = c.begin(testCtx(t)); err != nil {
					return false, err
				}
				return tx.(textWork).tells(testCtx(t), l.take, l.arg)
			},
			func() (bool, error) {
				if round++; round%2 == 0 {
					return true, tx.rollback()
				}
				return true, tx.commit()
			})
	})
}
