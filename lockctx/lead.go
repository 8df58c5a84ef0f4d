package lockctx

import (
	"context"
	"database/sql"
)

// Lead runs fn on one of several processes: the one that holds the lock. It waits
// for the lock, with no bound but ctx, and runs fn under the lock's context. When
// the lock is lost, that context ends; once fn has returned, Lead waits for the
// lock again. When ctx ends, fn's context ends too; Lead waits for fn to return,
// and releases the lock, so that another process can lead at once.
//
// fn must return soon after its context has ended: until then nothing else is
// done here, although another process may lead by now. What fn does to the
// database in transactions begun under its context cannot be committed then; with
// a lease, FromContext and Token give the fencing token for what it does elsewhere.
//
// Lead returns when fn has returned while the lock was held, with fn's error, or
// nil; and when ctx has ended, with an error that matches ctx.Err(). It returns
// at once what no further try would mend: ErrUnsupported, ErrClosed, a bad option
// or key, and what the server answered to the very first try. Any other failure
// to get the lock is logged as a warning and tried again after a pause of 100 ms
// to 5 s. WithTimeout is an error. Observers hear leading and deposed.
func Lead(ctx context.Context, db *sql.DB, key string, fn func(context.Context) error, opts ...Option) error {
	keeper, req, err := prepare(ctx, db, key, opts)
	if err != nil {
		return err
	}
	return keeper.Lead(ctx, req, fn)
}
