package lockctx_test

import (
	"context"
	"database/sql"

	"github.com/lockdb/lockdb/lockctx"
)

// acquirer is Acquire or TryAcquire.
type acquirer func(context.Context, *sql.DB, string, ...lockctx.Option) (*lockctx.Lock, error)
