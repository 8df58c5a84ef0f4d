package lockctx_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestALockSurvivesTheEndOfAStatementThatAnOperatorCancels(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		db, out := open(t, view), newOutsider(t, view)
		lk := acquire(t, db, dbtest.Key(t))
		session := sessionID(t, s, db, lk)
		for _, q := range []asker{db, lk.DB()} {
			slept := async(func() error {
				var x any
				err := q.QueryRowContext(lk.Context(), sleepQuery(s, 20)).Scan(&x)
				if s.Kind() == dbtest.MySQL && fmt.Sprint(x) == "1" { // so SLEEP says it there
					err = context.Canceled
				}
				return err
			})
			require.Eventually(t, func() bool { return sleeps(t, view, session) }, promptly, time.Millisecond)
			require.NoError(t, second(view.Open(t).Exec(cancelQuery(view, session))))
			err := within(t, slept, promptly, "the statement")
			require.Error(t, err)
			require.NotErrorIs(t, err, lockctx.ErrLost)
		}
		require.NoError(t, lk.Err())
		require.False(t, out.try(lk.Key()))
		tab.mustInsert(lk.Context(), db, 1)
		require.Equal(t, session, sessionID(t, s, db, lk))
		require.NoError(t, lk.Close())
	})
}

func TestAWaitSurvivesTheEndOfAStatementThatAnOperatorCancels(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, key, out := open(t, view), dbtest.Key(t), newOutsider(t, view)
		require.True(t, out.take(key))
		granted := waitFor(testCtx(t), t, db, key)
		for range 3 {
			requireWaitsAtServer(t, view)
			for _, one := range view.Sessions(t) {
				if one.State == "User lock" || one.State == "advisory" {
					require.NoError(t, second(view.Open(t).Exec(cancelQuery(view, one.ID))))
				}
			}
		}
		select {
		case g := <-granted:
			t.Fatalf("the wait ended: %v", g.err)
		default:
		}
		out.release(key)
		next := within(t, granted, promptly, "the grant")
		require.NoError(t, next.err)
		require.NoError(t, next.lk.Close())
	})
}
