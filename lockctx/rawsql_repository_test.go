package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

var errTaken = errors.New("the lock is taken")

// repository is how services have named locks of old: an error where the lock was
// not granted, and a deferred release in every case.
type repository struct{ take, release string }

func newRepository(t testing.TB, s *dbtest.Server, key string) repository {
	if s.IsMySQL() {
		return repository{"SELECT GET_LOCK('" + lockName(t, key) + "', 1)", rawSQLFor(t, s, key).release}
	}
	text := rawSQLFor(t, s, key)
	return repository{text.take, text.release}
}

func (r repository) with(ctx context.Context, q rower, work func() error) error {
	defer func() {
		var released sql.NullBool
		_ = q.QueryRowContext(ctx, r.release).Scan(&released)
	}()
	var got sql.NullBool
	if err := q.QueryRowContext(ctx, r.take).Scan(&got); err != nil {
		return err
	}
	if !got.Bool {
		return errTaken
	}
	return work()
}

// crowdInside has twenty goroutines at it for a while, and returns how often one was
// inside. It fails if two ever were.
func crowdInside(t *testing.T, enter func(work func() error) error) (turns int64) {
	t.Helper()
	var inside, all atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(time.Second)
	for range 20 {
		wg.Go(func() {
			for time.Now().Before(end) {
				err := enter(func() error {
					if n := inside.Add(1); n != 1 {
						return fmt.Errorf("%d inside", n)
					}
					pause(4 * time.Millisecond)
					inside.Add(-1)
					all.Add(1)
					return nil
				})
				if err != nil && !errors.Is(err, errTaken) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return all.Load()
}

func TestAClassicLockRepositoryNeverHasTwoInside(t *testing.T) {
	for name, limit := range map[string]int{"a pool of four": 4, "no limit": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				t.Parallel()
				db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
				db.SetMaxOpenConns(limit)
				r := newRepository(t, s, key)
				turns := crowdInside(t, func(work func() error) error {
					return r.with(testCtx(t), db, work)
				})
				require.Positive(t, turns)
				require.True(t, out.try(key), "a lock was left")
				require.Empty(t, heldBy(t, db))
			})
		})
	}
}

func TestAClassicLockRepositoryInTransactionsNeverHasTwoInside(t *testing.T) {
	for name, forgets := range map[string]bool{"with a release": false, "without a release": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				t.Parallel()
				view, tab := newTable(t, s)
				db, out, key := open(t, view), newOutsider(t, view), dbtest.Key(t)
				db.SetMaxOpenConns(8)
				tab.mustInsert(testCtx(t), tab.bare, 0)
				var committed atomic.Int64
				r := newRepository(t, view, key)
				if forgets {
					r.release = "SELECT 0"
				}
				turns := crowdInside(t, func(work func() error) error {
					tx, err := db.BeginTx(testCtx(t), nil)
					if err != nil {
						return err
					}
					defer func() { _ = tx.Rollback() }()
					err = r.with(testCtx(t), tx, func() error {
						if err := work(); err != nil || !forgets { // whose lock ends before the commit
							return err
						}
						return increment(testCtx(t), tx, 0)
					})
					if err == nil {
						err = tx.Commit()
					}
					if err == nil {
						committed.Add(1)
					}
					return err
				})
				require.Positive(t, turns)
				if forgets {
					require.Equal(t, int(committed.Load()), tab.value(0), "an update was lost: the lock ended before the commit")
				}
				require.True(t, out.try(key), "a lock was left")
				require.Empty(t, heldBy(t, db))
			})
		})
	}
}

func TestALosersReleaseFreesNobodysLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		db, out, key := open(t, s), newOutsider(t, s), dbtest.Key(t)
		r := newRepository(t, s, key)
		require.NoError(t, r.with(testCtx(t), db, func() error {
			holder := out.holder(key)
			losers := make(chan error, 10)
			for range cap(losers) {
				go func() {
					losers <- r.with(testCtx(t), db, func() error { return errors.New("inside") })
				}()
			}
			for range cap(losers) {
				require.ErrorIs(t, within(t, losers, promptly, "a loser"), errTaken)
				require.Equal(t, holder, out.holder(key))
			}
			return nil
		}))
		require.True(t, out.try(key))
	})
}
