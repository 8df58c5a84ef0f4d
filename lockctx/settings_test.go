package lockctx_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// pgx refuses queries in the simple protocol there, but no others.
func TestPostgresSettingsThatPgxWorksUnderAreNoneOfTheLocksBusiness(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		if s.IsMySQL() {
			return
		}
		for _, setting := range []string{"standard_conforming_strings=off", "client_encoding=LATIN1"} {
			db, other := openDSN(t, s.DSN()+"&"+setting), open(t, s)
			for name, opts := range map[string][]lockctx.Option{"session lock": nil, "lease": {lockctx.Lease(time.Minute)}, "multiplexed": {lockctx.Multiplexed()}} {
				key := dbtest.Key(t)
				lk, err := lockctx.Acquire(testCtx(t), db, key, opts...)
				require.NoError(t, err, setting)
				_, err = lockctx.TryAcquire(testCtx(t), other, key, opts...)
				require.ErrorIs(t, err, lockctx.ErrNotAcquired, name)
				require.NoError(t, lk.Close(), name)
				if name == "multiplexed" {
					continue
				}
				require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
					return tx.QueryRowContext(ctx, "SELECT 1").Scan(new(int))
				}, opts...), name)
				all, err := lockctx.AcquireAll(testCtx(t), db, []string{key + "/1", key + "/2"}, opts...)
				require.NoError(t, err, name)
				require.NoError(t, all.Close(), name)
			}
		}
	})
}
