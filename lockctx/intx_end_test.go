package lockctx_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	lockdb "github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestInTxSaysThatItsContextEndedAndNothingElse(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		db, key := open(t, view), dbtest.Key(t)
		for id := range 50 { // database/sql rolls back at the same time, sooner or later
			ctx, cancel := context.WithCancel(testCtx(t))
			err := lockctx.InTx(ctx, db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
				if err := tab.insert(ctx, tx, id); err != nil {
					return err
				}
				cancel()
				if id%2 == 0 {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			})
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, lockctx.ErrReleased)
			require.NotErrorIs(t, err, lockctx.ErrLost)
		}
		require.Empty(t, tab.ids())
	})
}

func TestNoLossIsABadConnToDatabaseSQL(t *testing.T) {
	for name, lose := range map[string]func(testing.TB, *lockctx.Lock){
		"at the release": func(t testing.TB, lk *lockctx.Lock) {
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		},
		"by the keep-alive":                  requireLost,
		"by the keep-alive in a transaction": requireLost,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				t.Parallel()
				db, r := openAs(t, s, asItIs, lockdb.WithTTL(pingTTL))
				lk := acquire(t, db, dbtest.Key(t))
				if strings.HasSuffix(name, "transaction") {
					_, err := db.BeginTx(lk.Context(), nil)
					require.NoError(t, err)
				}
				r.become(func(string) (string, error) { return "", driver.ErrBadConn })
				lose(t, lk)
				require.ErrorIs(t, lk.Err(), lockctx.ErrLost)
				for _, err := range []error{
					lk.Err(), lk.Context().Err(), context.Cause(lk.Context()), lk.Close(),
					db.PingContext(context.WithoutCancel(lk.Context())),
				} {
					require.Error(t, err)
					require.NotErrorIs(t, err, driver.ErrBadConn)
				}
			})
		})
	}
}
