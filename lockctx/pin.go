package lockctx

import (
	"context"
	"database/sql"

	"github.com/lockdb/lockdb/conn"
)

// Pinned is a server session of one's own. Its methods are documented at
// [conn.Pinned]: Context, Conn, DB, Err, Close.
type Pinned = conn.Pinned

// Pin takes a server session out of everyone's hands, for code that takes and
// releases session locks in SQL text itself (GET_LOCK, pg_advisory_lock, …) and
// does so on several goroutines, or between other statements: everything that runs
// under the Context of what it returns, through db or anything built on it, runs
// on that session. It needs no slot of db's pool. Close rolls back what is open
// and releases the locks that are left.
//
// ctx bounds the wait for a session and is the parent of the Context. The session
// is kept alive, watched and lost as that of a lock is. Errors: ctx.Err(),
// ErrUnsupported where session locks do not exclude, ErrClosed, or the driver's.
func Pin(ctx context.Context, db *sql.DB) (*Pinned, error) {
	keeper, err := conn.KeeperOf(ctx, db)
	if err != nil {
		return nil, err
	}
	return keeper.Pin(ctx)
}
