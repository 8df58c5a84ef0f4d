package lockctx_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	lockdb "github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

// hiding is a wrapper that has no IsValid, as older tracing libraries.
type hiding struct{ driver.Connector }

func (h hiding) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := h.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return struct {
		driver.Conn
		driver.QueryerContext
		driver.ExecerContext
		driver.ConnBeginTx
		driver.SessionResetter
	}{c, c.(driver.QueryerContext), c.(driver.ExecerContext), c.(driver.ConnBeginTx), c.(driver.SessionResetter)}, nil
}

func TestBehindAWrapperRawLocksAreNotHandedToTheNext(t *testing.T) {
	wraps := map[string]func(driver.Connector) driver.Connector{
		"a good one":             func(c driver.Connector) driver.Connector { return wrapper{c} },
		"one that hides IsValid": func(c driver.Connector) driver.Connector { return hiding{c} },
	}
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for name, wrap := range wraps {
			c, err := lockdb.OpenConnector(s.DSN(), lockdb.WithLogger(slog.New(slog.DiscardHandler)))
			require.NoError(t, err)
			db, out, key := sql.OpenDB(wrap(c)), newOutsider(t, s), dbtest.Key(t)
			db.SetMaxOpenConns(1)
			text := rawSQLFor(t, s, key)
			for range 3 {
				require.True(t, yes(t, db, text.take), name)
				joined(func() {
					require.NotEqual(t, out.holder(key), askID(testCtx(t), t, s, db), name)
					require.False(t, yes(t, db, text.release), "%s: a stranger released it", name)
				})
				require.False(t, out.try(key), name)
				require.True(t, yes(t, db, text.release), name)
				require.True(t, out.try(key), name)

				tx, err := db.BeginTx(testCtx(t), nil)
				require.NoError(t, err)
				require.True(t, yes(t, tx, text.take), name)
				require.NoError(t, tx.Commit())
				askID(testCtx(t), t, s, db) // the wrapper hides the return from us, not the next use
				require.True(t, out.try(key), "%s: the lock of a transaction outlived it", name)
			}
			require.NoError(t, db.Close())
			require.NoError(t, c.Close()) // a wrapper may forget that, too
		}
	})
}
