package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// txEndings end a transaction under a lock after the network has become silent. The nearer end of
// the network keeps TCP alive, and the drivers break off neither COMMIT nor ROLLBACK.
var txEndings = []struct {
	name    string
	outcome bool // whether nobody can know what came of it
	run     func(ctx context.Context, db *sql.DB, key string, silence func()) error
}{
	{"commit of InTx", true, func(ctx context.Context, db *sql.DB, key string, silence func()) error {
		return lockctx.InTx(ctx, db, key, nil, func(context.Context, *sql.Tx) error {
			silence()
			return nil
		})
	}},
	{"rollback of InTx", false, func(ctx context.Context, db *sql.DB, key string, silence func()) error {
		return lockctx.InTx(ctx, db, key, nil, func(context.Context, *sql.Tx) error {
			silence()
			return errors.New("no")
		})
	}},
	{"commit of InTx under another lock", true, func(ctx context.Context, db *sql.DB, key string, silence func()) error {
		return lockctx.Do(ctx, db, key+"2", func(ctx context.Context) error {
			return lockctx.InTx(ctx, db, key, nil, func(context.Context, *sql.Tx) error {
				silence()
				return nil
			})
		})
	}},
	{"commit by hand", true, func(ctx context.Context, db *sql.DB, key string, silence func()) error {
		return byHand(ctx, db, key, silence, (*sql.Tx).Commit)
	}},
	{"rollback by hand", false, func(ctx context.Context, db *sql.DB, key string, silence func()) error {
		return byHand(ctx, db, key, silence, (*sql.Tx).Rollback)
	}},
}

func byHand(ctx context.Context, db *sql.DB, key string, silence func(), end func(*sql.Tx) error) error {
	return lockctx.Do(ctx, db, key, func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		silence()
		return end(tx)
	})
}

func TestTheEndOfATransactionOnASilentNetworkIsNotWaitedForLongAfterTheEndOfItsContext(t *testing.T) {
	const ttl = 2 * time.Second
	for _, e := range txEndings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				t.Parallel()
				relay := s.Relay(t)
				db, key := openDSN(t, relay.DSN(), driver.WithTTL(ttl)), dbtest.Key(t)
				ctx, cancel := context.WithTimeout(context.Background(), ttl)
				defer cancel()
				done := async(func() error { return e.run(ctx, db, key, relay.CutForGood) })
				explain := func() { logServer(t, s, key) }
				err := within(t, done, promptly, e.name, explain)
				require.ErrorIs(t, err, lockctx.ErrLost)
				require.Equal(t, e.outcome, errors.Is(err, lockctx.ErrOutcomeUnknown), "%v", err)
				relay.Heal()
				again := async(func() error { return lockctx.Do(testCtx(t), db, key, func(context.Context) error { return nil }) })
				require.NoError(t, within(t, again, promptly, "the lock, on another session", explain))
			})
		})
	}
}
