package lockctx_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// MariaDB refuses a ROLLBACK that a KILL QUERY meets, and leaves the transaction
// open, which the next BEGIN on the session would commit.
func TestWhatIsRolledBackUnderCancelsIsNeverCommitted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		db, key := open(t, view), dbtest.Key(t)
		lk := acquire(t, db, key)
		cancel := fmt.Sprintf("KILL QUERY %d", sessionID(t, view, db, lk))
		if !s.IsMySQL() {
			cancel = fmt.Sprintf("SELECT pg_cancel_backend(%d)", sessionID(t, view, db, lk))
		}
		stop := make(chan struct{})
		var canceller sync.WaitGroup
		killer := s.Open(t)
		for range 4 {
			canceller.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_, _ = killer.Exec(cancel)
					}
				}
			})
		}
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end) && lk.Err() == nil; {
			if tx, err := db.BeginTx(lk.Context(), nil); err == nil {
				_ = tab.insert(testCtx(t), tx, 1)
				_ = tx.Rollback()
			}
		}
		close(stop)
		canceller.Wait()
		if err := lk.Close(); s.IsMySQL() { // pgx closes the connection when its ROLLBACK is cancelled
			require.NoError(t, err)
		}
		require.Empty(t, tab.ids())
	})
}
