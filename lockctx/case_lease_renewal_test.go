package lockctx_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

var leaseRounds = flag.Int("lease.rounds", 40, "how many rounds of C54 there are")

func TestC54_ARenewalBesideAReleaseLeavesTheRowFree(t *testing.T) {
	const keys = 50
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		db, rows, prefix := open(t, view), newLeaseTable(t, view), dbtest.Key(t)
		db.SetMaxOpenConns(5)
		for range *leaseRounds {
			together(t, keys, func(i int) error {
				lk, err := lockctx.Acquire(testCtx(t), db, fmt.Sprint(prefix, i),
					lockctx.Lease(300*time.Millisecond), lockctx.RenewEvery(100*time.Millisecond))
				if err != nil {
					return err
				}
				time.Sleep(95*time.Millisecond + rand.N(10*time.Millisecond)) // about when it is renewed
				return lk.Close()
			})
			require.Zero(t, rows.live(), "a renewal came after the release")
		}
	})
}
