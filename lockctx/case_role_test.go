package lockctx_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

func TestC22_AServerThatIsDemotedUnderAHolderLosesItsLocks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		roles := []string{"@@read_only", "@@innodb_read_only"}
		if !s.IsMySQL() {
			roles = []string{"pg_is_in_recovery()"}
		}
		for _, role := range roles {
			db, r := openAs(t, s, asItIs, driver.WithTTL(time.Second))
			lk := acquire(t, db, dbtest.Key(t))
			r.become(replacing(role, "1 = 1"))
			requireLost(t, lk)
			require.ErrorContains(t, lk.Err(), "connect to the primary", role)
			require.Error(t, lk.Close())
		}
	})
}
