package lockctx_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

var leaseRounds = flag.Int("lease.rounds", 40, "how many rounds of C54 there are")

func TestC54_ARenewalBesideAReleaseLeavesTheRowFree(t *testing.T) {
	const keys, ttl = 50, 300 * time.Millisecond
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, rows, prefix := open(t, view), newLeaseTable(t, view), dbtest.Key(t)
		db.SetMaxOpenConns(5)
		for range *leaseRounds {
			var late atomic.Int32 // this process or the server had no time for a lease so short
			together(t, keys, func(i int) error {
				began := time.Now()
				lk, err := lockctx.Acquire(testCtx(t), db, fmt.Sprint(prefix, i), lockctx.Lease(ttl), lockctx.RenewEvery(ttl/3))
				if err == nil {
					time.Sleep(95*time.Millisecond + rand.N(10*time.Millisecond)) // about when it is renewed
					err = lk.Close()
				}
				if err != nil && time.Since(began) > ttl/2 && (errors.Is(err, lockctx.ErrLost) || strings.Contains(err.Error(), "use a longer TTL")) {
					late.Add(1)
					return nil
				}
				return err
			})
			if n := late.Load(); n > 0 {
				t.Logf("%d of %d leases were lost, since all took so long", n, keys)
				require.Eventually(t, func() bool { return rows.live() == 0 }, promptly, ttl/10)
			}
			require.Zero(t, rows.live(), "a renewal came after the release")
		}
	})
}
