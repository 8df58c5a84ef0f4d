package lockctx_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestDBCloseIsToldAsReleasesAndRefusals(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		lk := acquire(t, db, key)
		inner, err := lockctx.Acquire(lk.Context(), db, key+":2")
		require.NoError(t, err)
		waiting := waitFor(testCtx(t), t, db, key)
		require.NoError(t, db.Close())
		g := within(t, waiting, promptly, "the end of the wait")
		require.ErrorIs(t, g.err, lockctx.ErrClosed)
		require.ErrorIs(t, lk.Close(), lockctx.ErrClosed)
		require.Error(t, inner.Err())
		require.ElementsMatch(t, []string{"acquired", "acquired:2", "waited", "released:2", "released", "refused"}, rec.story())
		require.ErrorIs(t, rec.only(t, driver.EventRefused).Err, lockctx.ErrClosed)
		_, err = lockctx.Acquire(testCtx(t), db, key)
		require.ErrorIs(t, err, lockctx.ErrClosed)
		require.Equal(t, "refused", rec.story()[6])
	})
}

func TestAReleaseThatCostATransactionSaysSo(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		lk := acquire(t, db, key)
		inner, err := lockctx.Acquire(lk.Context(), db, key+":2")
		require.NoError(t, err)
		_, err = db.BeginTx(inner.Context(), nil)
		require.NoError(t, err)
		err = inner.Close()
		require.ErrorContains(t, err, "transaction")
		require.Equal(t, err, rec.only(t, driver.EventReleased).Err)
		_, err = db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		err = lk.Close()
		require.ErrorContains(t, err, "transaction")
		require.Equal(t, err, rec.all()[3].Err)
		rec.tells(t, "acquired", "acquired:2", "released:2", "released")
	})
}

func TestAReleaseThatCostAStatementSaysSo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for _, nested := range []bool{false, true} {
			view, key := s.CreateDatabase(t), dbtest.Key(t) // to see what runs
			rec := &recorder{key: key}
			db := open(t, view, driver.WithBusyTimeout(50*time.Millisecond), driver.WithObserver(rec))
			lk := acquire(t, db, key)
			closed, want := lk, []string{"acquired", "released"}
			if nested {
				var err error
				closed, err = lockctx.Acquire(lk.Context(), db, key+":2")
				require.NoError(t, err)
				want = []string{"acquired", "acquired:2", "released:2", "lost"}
			}
			cut := async(func() error {
				_, err := db.ExecContext(closed.Context(), sleepQuery(s, 20))
				return err
			})
			require.Eventually(t, func() bool { return runsNow(t, view, "sleep") }, promptly, time.Millisecond)
			err := closed.Close()
			require.ErrorIs(t, err, lockctx.ErrReleased)
			require.NotErrorIs(t, err, lockctx.ErrLost)
			require.Error(t, within(t, cut, promptly, "the end of the statement"))
			if nested {
				requireLost(t, lk)
			}
			require.Eventually(t, func() bool { return len(rec.all()) == len(want) }, promptly, time.Millisecond)
			require.ElementsMatch(t, want, rec.story())
			require.Equal(t, err, rec.only(t, driver.EventReleased).Err)
		}
	})
}

func TestInTxAndDoAreToldAsAcquiredAndReleased(t *testing.T) {
	observed(t, func(t *testing.T, s *dbtest.Server, db *sql.DB, key string, rec *recorder) {
		require.NoError(t, lockctx.Do(testCtx(t), db, key, func(context.Context) error { return nil }))
		require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(context.Context, *sql.Tx) error { return nil }))
		rec.tells(t, "acquired", "released", "acquired", "released")
		for _, e := range rec.all() {
			require.NoError(t, e.Err)
		}
	})
}
