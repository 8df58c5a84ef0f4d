package orm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestStatementsUnderTheLocksContextRunOnItsSessionAndOthersDoNot(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, id int64) {
		lk, session := s.acquire(t, c.db())
		for range 3 {
			got, err := c.session(lk.Context())
			require.NoError(t, err)
			require.Equal(t, session, got)

			got, err = c.session(testCtx(t))
			require.NoError(t, err)
			require.NotEqual(t, session, got)

			derived, cancel := context.WithTimeout(lk.Context(), time.Minute)
			got, err = c.session(derived)
			cancel()
			require.NoError(t, err)
			require.Equal(t, session, got)
		}
		require.NoError(t, c.insert(lk.Context(), id))
		require.True(t, s.has(t, id))

		require.NoError(t, lk.Close())
		_, err := c.session(lk.Context())
		require.ErrorIs(t, err, lockctx.ErrReleased)
		_, err = c.session(testCtx(t))
		require.NoError(t, err)
	})
}

func TestATransactionUnderTheLockCommitsWhileItIsHeld(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, id int64) {
		lk, session := s.acquire(t, c.db())
		tx, err := c.begin(lk.Context())
		require.NoError(t, err)
		for _, ctx := range []context.Context{lk.Context(), testCtx(t)} {
			got, err := tx.session(ctx)
			require.NoError(t, err)
			require.Equal(t, session, got, "a transaction's statements stay in it")
		}
		require.NoError(t, tx.insert(lk.Context(), id))
		require.False(t, s.has(t, id))
		require.NoError(t, tx.commit())
		require.True(t, s.has(t, id))
		require.NoError(t, lk.Close())
		require.Zero(t, s.holder(t, lk.Key()))
	})
}

func TestATransactionWithoutTheLocksContextIsNotOnItsSession(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, id int64) {
		lk, session := s.acquire(t, c.db())
		tx, err := c.begin(testCtx(t))
		require.NoError(t, err)
		for _, ctx := range []context.Context{lk.Context(), testCtx(t)} {
			got, err := tx.session(ctx)
			require.NoError(t, err)
			require.NotEqual(t, session, got, "a transaction's statements stay in it")
		}
		require.NoError(t, tx.insert(lk.Context(), id))
		require.NoError(t, lk.Close(), "it is not the lock's to roll back")
		require.NoError(t, tx.commit())
		require.True(t, s.has(t, id))
	})
}

func TestARolledBackTransactionLeavesNothingAndTheLockHeld(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, id int64) {
		lk, session := s.acquire(t, c.db())
		tx, err := c.begin(lk.Context())
		require.NoError(t, err)
		require.NoError(t, tx.insert(lk.Context(), id))
		require.NoError(t, tx.rollback())
		require.False(t, s.has(t, id))
		require.Equal(t, session, s.holder(t, lk.Key()))
		require.NoError(t, c.insert(lk.Context(), id))
		require.NoError(t, lk.Close())
	})
}

func TestNothingRunsUnderALockWhoseSessionWasKilled(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, id int64) {
		lk, session := s.acquire(t, c.db())
		tx, err := c.begin(lk.Context())
		require.NoError(t, err)
		require.NoError(t, tx.insert(lk.Context(), id))
		s.kill(t, lk, session)
		requireLost(t, lk, tx.insert(lk.Context(), id+1000))
		requireLost(t, lk, tx.commit())
		_, err = c.session(lk.Context())
		require.ErrorIs(t, err, lockctx.ErrLost)
		require.ErrorIs(t, c.insert(lk.Context(), id), lockctx.ErrLost)
		_, err = c.begin(lk.Context())
		require.ErrorIs(t, err, lockctx.ErrLost)
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		require.False(t, s.has(t, id))
		require.False(t, s.has(t, id+1000))

		require.NoError(t, c.insert(testCtx(t), id), "without the lock's context nothing is lost")
	})
}

func TestACommitThatMeetsAKillTellsWhetherItTookEffect(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, id int64) {
		lk, session := s.acquire(t, c.db())
		tx, err := c.begin(lk.Context())
		require.NoError(t, err)
		require.NoError(t, tx.insert(lk.Context(), id))
		s.KillSession(t, session)
		switch err := tx.commit(); {
		case err == nil:
			require.True(t, s.has(t, id))
		case errors.Is(err, lockctx.ErrOutcomeUnknown):
			require.ErrorIs(t, err, lockctx.ErrLost)
		default:
			<-lk.Context().Done()
			requireLost(t, lk, err)
			require.False(t, s.has(t, id))
		}
	})
}

func TestATransactionThatIsOpenAtCloseIsRolledBackBeforeTheRelease(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, id int64) {
		lk, _ := s.acquire(t, c.db())
		tx, err := c.begin(lk.Context())
		require.NoError(t, err)
		require.NoError(t, tx.insert(lk.Context(), id))
		require.ErrorIs(t, lk.Close(), lockctx.ErrReleased)
		require.Zero(t, s.holder(t, lk.Key()))
		require.False(t, s.has(t, id))
		require.Error(t, tx.commit())
		require.False(t, s.has(t, id))
		require.NoError(t, c.insert(testCtx(t), id), "its row locks are gone too")
	})
}

func TestHoldersNeedNoMoreThanOneSlotOfThePool(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, id int64) {
		c.db().SetMaxOpenConns(1)
		const holders = 5
		done := make(chan error, holders)
		for i := range int64(holders) {
			key := dbtest.Key(t)
			go func() {
				done <- lockctx.Do(testCtx(t), c.db(), key, func(ctx context.Context) error {
					tx, err := c.begin(ctx)
					if err != nil {
						return err
					}
					defer func() { _ = tx.rollback() }()
					if err := tx.insert(ctx, id*100+i); err != nil {
						return err
					}
					return tx.commit()
				})
			}()
		}
		for range holders {
			require.NoError(t, <-done)
		}
		for i := range int64(holders) {
			require.True(t, s.has(t, id*100+i))
		}
	})
}
