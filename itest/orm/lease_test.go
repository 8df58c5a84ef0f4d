package orm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/lockkey"
	"github.com/lockdb/lockdb/lockctx"
)

// acquireLease takes a lease of the test's own, which is not renewed while it lasts: only the fence can find that it
// has moved on.
func (s server) acquireLease(t testing.TB, c client) *lockctx.Lock {
	t.Helper()
	lk, err := lockctx.Acquire(testCtx(t), c.db(), dbtest.Key(t), lockctx.Lease(time.Hour))
	require.NoError(t, err)
	t.Cleanup(func() { _ = lk.Close() })
	return lk
}

// steal has another owner take the lease over, live as it is.
func (s server) steal(t testing.TB, lk *lockctx.Lock) {
	t.Helper()
	name, err := lockkey.Name("", lk.Key())
	require.NoError(t, err)
	res, err := s.outside.Exec(fmt.Sprintf("UPDATE lockdb_lease SET owner = 'thief', token = token + 1 WHERE lease_key = '%s'", name))
	require.NoError(t, err)
	n, err := res.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

func TestATransactionUnderALeaseCommitsWhileItIsHeld(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, id int64) {
		lk := s.acquireLease(t, c)
		tx, err := c.begin(lk.Context())
		require.NoError(t, err)
		require.NoError(t, tx.insert(lk.Context(), id))
		require.False(t, s.has(t, id))
		require.NoError(t, tx.commit())
		require.True(t, s.has(t, id))
		require.NoError(t, c.rename(lk.Context(), id, "renamed"))
		require.NoError(t, lk.Close())
		_, err = c.begin(lk.Context())
		require.ErrorIs(t, err, lockctx.ErrReleased)
	})
}

func TestATransactionUnderALeaseThatWasStolenCommitsNothing(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, id int64) {
		lk := s.acquireLease(t, c)
		tx, err := c.begin(lk.Context())
		require.NoError(t, err)
		require.NoError(t, tx.insert(lk.Context(), id))
		s.steal(t, lk)
		require.NoError(t, lk.Err(), "nobody has told")
		require.ErrorIs(t, tx.commit(), lockctx.ErrLost)
		require.False(t, s.has(t, id))
		require.NoError(t, c.insert(testCtx(t), id), "its row locks are gone")
		require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
	})
}

func TestATransactionThatIsOpenAtCloseOfItsLeaseIsRolledBackBeforeTheRelease(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, id int64) {
		lk := s.acquireLease(t, c)
		tx, err := c.begin(lk.Context())
		require.NoError(t, err)
		require.NoError(t, tx.insert(lk.Context(), id))
		require.ErrorIs(t, lk.Close(), lockctx.ErrReleased)
		require.Error(t, tx.commit())
		require.NoError(t, c.insert(testCtx(t), id), "its row locks are gone")
	})
}

// gorm begins transactions by itself: in Transaction, and around each write.
func TestGormsOwnTransactionsUnderALeaseAreFenced(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		for _, prepare := range []bool{false, true} {
			t.Run(fmt.Sprintf("prepare %v", prepare), func(t *testing.T) {
				c := openGorm(prepare)(t, s).(gormClient)
				s.emptyTables(t)
				lk := s.acquireLease(t, c)
				g := c.g.WithContext(lk.Context())
				require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
					require.NoError(t, tx.Create(&item{ID: 1}).Error)
					err := tx.Transaction(func(tx *gorm.DB) error { // a savepoint
						return errors.Join(tx.Create(&item{ID: 2}).Error, errOnPurpose)
					})
					require.ErrorIs(t, err, errOnPurpose)
					return nil
				}))
				require.NoError(t, g.Create(&item{ID: 3}).Error)
				require.True(t, s.has(t, 1))
				require.False(t, s.has(t, 2))
				require.True(t, s.has(t, 3))

				require.ErrorIs(t, g.Transaction(func(tx *gorm.DB) error {
					s.steal(t, lk)
					return tx.Create(&item{ID: 4}).Error
				}), lockctx.ErrLost)
				lk = s.acquireLease(t, c)
				s.steal(t, lk)
				require.ErrorIs(t, c.g.WithContext(lk.Context()).Create(&item{ID: 5}).Error, lockctx.ErrLost)
				require.False(t, s.has(t, 4))
				require.False(t, s.has(t, 5))
			})
		}
	})
}

func TestTheLibrariesLoseNoUpdateUnderALease(t *testing.T) {
	eachLibrary(t, func(t *testing.T, s server, c client, id int64) {
		key := dbtest.Key(t)
		require.NoError(t, c.insert(testCtx(t), id))
		require.NoError(t, c.rename(testCtx(t), id, "0"))
		const workers, each = 4, 3
		done := make(chan error, workers)
		for range workers {
			go func() {
				var err error
				for range each {
					err = errors.Join(err, lockctx.Do(testCtx(t), c.db(), key, func(ctx context.Context) error {
						return addOneInTx(ctx, c, id)
					}, lockctx.Lease(10*time.Second)))
				}
				done <- err
			}()
		}
		for range workers {
			require.NoError(t, <-done)
		}
		name, err := c.name(testCtx(t), id)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(workers*each), name)
	})
}
