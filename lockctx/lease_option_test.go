package lockctx_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestOptionsOfLeasesThatDoNotFitAreRefusedWithAReason(t *testing.T) {
	db := openDSN(t, "user@tcp(127.0.0.1:1)/none") // no server is asked
	cases := []struct {
		opts []lockctx.Option
		says string
		is   error
	}{
		{opts: []lockctx.Option{lockctx.Lease(0)}, says: "from 10ms"},
		{opts: []lockctx.Option{lockctx.Lease(-time.Second)}, says: "from 10ms"},
		{opts: []lockctx.Option{lockctx.Lease(9 * time.Millisecond)}, says: "from 10ms"},
		{opts: []lockctx.Option{lockctx.Lease(366 * 24 * time.Hour)}, says: "8760h"},
		{opts: []lockctx.Option{lockctx.Owner("me")}, says: "Lease(ttl)"},
		{opts: []lockctx.Option{lockctx.RenewEvery(time.Second)}, says: "Lease(ttl)"},
		{opts: []lockctx.Option{lockctx.Lease(ttl), lockctx.Owner("")}, says: "empty"},
		{opts: []lockctx.Option{lockctx.Lease(ttl), lockctx.Owner(strings.Repeat("x", 64<<10+1))}, says: "at most"},
		{opts: []lockctx.Option{lockctx.Lease(ttl), lockctx.RenewEvery(0)}, says: "not positive"},
		{opts: []lockctx.Option{lockctx.Lease(ttl), lockctx.RenewEvery(-1)}, says: "not positive"},
		{opts: []lockctx.Option{lockctx.RenewEvery(ttl/3 + 1), lockctx.Lease(ttl)}, says: "must leave time for the next"},
		{opts: []lockctx.Option{lockctx.Lease(ttl), lockctx.AdvisoryID(1)}, says: "use one or the other", is: lockctx.ErrUnsupported},
		{opts: []lockctx.Option{lockctx.AdvisoryPair(1, 2), lockctx.Lease(ttl)}, says: "use one or the other", is: lockctx.ErrUnsupported},
	}
	for _, c := range cases {
		_, err := lockctx.Acquire(testCtx(t), db, "k", c.opts...)
		require.ErrorContains(t, err, c.says)
		_, err = lockctx.AcquireAll(testCtx(t), db, []string{"k"}, c.opts...)
		require.ErrorContains(t, err, c.says)
		if c.is != nil {
			require.ErrorIs(t, err, c.is)
		}
	}
	_, err := lockctx.AcquireAll(testCtx(t), db, nil, lockctx.Lease(ttl))
	require.ErrorContains(t, err, "at least one key")
	_, err = lockctx.Acquire(testCtx(t), db, "", lockctx.Lease(ttl))
	require.ErrorContains(t, err, "empty")
	_, err = lockctx.Prune(testCtx(t), db, -1)
	require.ErrorContains(t, err, "negative")
}

func TestAShortLeaseIsWarnedOfOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		var log bytes.Buffer
		db := open(t, s, driver.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		for _, ttl := range []time.Duration{time.Second, 999 * time.Millisecond, 500 * time.Millisecond} {
			lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(ttl))
			require.NoError(t, lk.Close())
		}
		require.Equal(t, 1, strings.Count(log.String(), "less than a second"))
		require.Contains(t, log.String(), "ttl=999ms")
	})
}

func TestTheSameOwnerTakesItsOwnLeaseOverAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		db, again, key := open(t, s), open(t, s), dbtest.Key(t)
		for _, id := range []string{"broker-1", "Broker 1\x00ü" + strings.Repeat("x", 100)} {
			old := acquire(t, db, key, lockctx.Lease(ttl), lockctx.Owner(id))
			_, err := lockctx.TryAcquire(testCtx(t), again, key, lockctx.Lease(ttl), lockctx.Owner("other"))
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
			taken, err := lockctx.TryAcquire(testCtx(t), again, key, lockctx.Lease(ttl), lockctx.Owner(id))
			require.NoError(t, err)
			require.Greater(t, taken.Token(), old.Token())
			tx, err := db.BeginTx(old.Context(), nil)
			require.NoError(t, err)
			require.ErrorIs(t, tx.Commit(), lockctx.ErrLost)
			require.ErrorIs(t, old.Close(), lockctx.ErrLost)
			require.NoError(t, taken.Err())
			require.NoError(t, taken.Close())
		}
	})
}

func TestPruneDeletesIdleLeasesAndTokensGrowOn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		db, key, table := open(t, s), dbtest.Key(t), newLeaseTable(t, s)
		held := acquire(t, db, key+"held", lockctx.Lease(ttl))
		lk := acquire(t, db, key, lockctx.Lease(ttl))
		require.NoError(t, lk.Close())
		n, err := lockctx.Prune(testCtx(t), db, time.Hour)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Eventually(t, func() bool {
			n, err = lockctx.Prune(testCtx(t), db, time.Millisecond)
			require.NoError(t, err)
			return n == 1
		}, 5*time.Second, 5*time.Millisecond)
		_, found := table.look(key)
		require.False(t, found)
		require.True(t, table.isHeld(key+"held"))
		again := acquire(t, db, key, lockctx.Lease(ttl))
		require.Greater(t, again.Token(), lk.Token())
		require.NoError(t, again.Close())
		require.NoError(t, held.Close())
	})
}

func TestLeaseDDLMakesATableThatLeasesUse(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		s = s.CreateDatabase(t)
		db := open(t, s, driver.WithLeaseTable("my_leases"))
		ddl, err := lockctx.LeaseDDL(context.Background(), db)
		require.NoError(t, err)
		require.Contains(t, ddl, "my_leases")
		bare := s.Open(t)
		_, err = bare.ExecContext(testCtx(t), ddl)
		require.NoError(t, err)
		require.NoError(t, acquire(t, db, "k", lockctx.Lease(ttl)).Close())
		var rows int
		require.NoError(t, bare.QueryRowContext(testCtx(t), "SELECT count(*) FROM my_leases").Scan(&rows))
		require.Equal(t, 1, rows)
	})
}
