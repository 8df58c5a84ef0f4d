package lockctx_test

import (
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

func TestC02_AnswersThatNobodySeesCountAsWhatTheyAre(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		rec := &recorder{}
		db, out, key := open(t, s, driver.WithObserver(rec)), newOutsider(t, s), dbtest.Key(t)
		text, prepared := rawSQLFor(t, s, key), preparedFor(t, s, key)
		require.True(t, out.take(key))
		for range 3 {
			require.NoError(t, second(db.ExecContext(testCtx(t), text.take)))
			require.NoError(t, second(db.ExecContext(testCtx(t), prepared.take, prepared.args...)))
			require.False(t, yes(t, db, text.take))
		}
		require.Empty(t, heldBy(t, db), "a refusal counted as held")
		require.Empty(t, rec.story())

		releases := []func() error{
			func() error { return second(db.ExecContext(testCtx(t), text.release)) },
			func() error { return second(db.ExecContext(testCtx(t), prepared.release, prepared.args[0])) },
			func() error { return byRow(text.release)(testCtx(t), db) },
		}
		for i, release := range releases {
			err := release()
			require.Equal(t, i == 2, err != nil, "what the program sees is the server's answer")
			require.Len(t, rec.story(), i+1, "nobody was told that it released nothing")
			require.Equal(t, driver.EventStranger, rec.all()[i].Kind)
			require.NotEmpty(t, rec.all()[i].Key)
			require.False(t, out.try(key) && out.holder(key) == 0)
		}
		out.release(key)
	})
}

func TestC02_AStrangersReleaseByExecIsToldWithWhoHasTheLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		rec := &recorder{}
		db, out, key := open(t, s, driver.WithObserver(rec)), newOutsider(t, s), dbtest.Key(t)
		text := rawSQLFor(t, s, key)
		require.NoError(t, second(db.ExecContext(testCtx(t), text.take)))
		joined(func() { require.NoError(t, second(db.ExecContext(testCtx(t), text.release))) })
		require.False(t, out.try(key))
		require.ErrorContains(t, rec.only(t, driver.EventStranger).Err, "another goroutine")
		require.NoError(t, second(db.ExecContext(testCtx(t), text.release)))
		require.True(t, out.try(key))
	})
}

func TestC39_OfOverlappingRawTakesOneIsGranted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for _, limit := range []int{1, 4} {
			db, out := open(t, s), newOutsider(t, s)
			db.SetMaxOpenConns(limit)
			for round := range 5 {
				key := fmt.Sprint(dbtest.Key(t), round)
				text := rawSQLFor(t, s, key)
				var granted atomic.Int32
				var all, tried sync.WaitGroup
				tried.Add(20)
				for range 20 {
					all.Go(func() {
						var got sql.NullBool
						if err := db.QueryRowContext(testCtx(t), text.take).Scan(&got); err != nil {
							t.Error(err)
						}
						if got.Bool {
							granted.Add(1)
						}
						tried.Done()
						tried.Wait() // all overlap
						if got.Bool && !yes(t, db, text.release) {
							t.Error("its taker could not release it")
						}
					})
				}
				all.Wait()
				require.EqualValues(t, 1, granted.Load())
				require.True(t, out.try(key))
			}
		}
	})
}
