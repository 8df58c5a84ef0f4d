package lockctx_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func killQuery(s *dbtest.Server, id int64) string {
	if s.IsMySQL() {
		return fmt.Sprintf("KILL %d", id)
	}
	return fmt.Sprintf("SELECT pg_terminate_backend(%d)", id)
}

func TestAWaiterIsNotTroubledByTheEndOfTheSessionThatWasToBeHandedToHim(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, key, ctx := open(t, view), dbtest.Key(t), testCtx(t)
		admin := view.Open(t)
		admin.SetMaxOpenConns(1)
		const turns = 30
		var killed sync.WaitGroup
		together(t, 10, func(int) error {
			for range turns {
				lk, err := lockctx.Acquire(ctx, db, key)
				if err != nil {
					return err
				}
				var id int64
				if lk.DB().QueryRowContext(lk.Context(), idQuery(s)).Scan(&id) == nil { // else it was killed before
					killed.Go(func() { _, _ = admin.Exec(killQuery(s, id)) })
				}
				_ = lk.Close() // it may have been lost
			}
			return nil
		})
		killed.Wait()
		require.Eventually(t, func() bool { return newOutsider(t, view).holder(key) == 0 }, promptly, promptly/1000)
	})
}
