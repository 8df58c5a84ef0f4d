package lockctx

import (
	"context"
	"database/sql"

	"github.com/lockdb/lockdb/conn"
)

// Lock is a lock that this process holds until Close. It is safe for concurrent
// use. Its methods are documented at [conn.Lock]: Context, Close, Err, Conn, DB,
// Key, Keys, Token, Tokens.
type Lock = conn.Lock

// FromContext returns the innermost lock whose context ctx is or derives from.
func FromContext(ctx context.Context) (*Lock, bool) { return conn.FromContext(ctx) }

// Acquire waits for the lock named key and returns it.
//
// db must have been opened by lockdb (sql.Open("lockdb", dsn), or sql.OpenDB
// with driver.OpenConnector), possibly below another wrapper. key is any
// non-empty string of at most 64 KiB; two keys name the same lock if and only
// if they are equal. The lock has a server session of its own, outside the
// pool of db: Acquire needs no slot of it, however many locks are held. With
// the option Multiplexed it shares one, and with Lease it is a row of a table
// instead.
//
// ctx bounds the wait and is the parent of the lock's Context, as with BeginTx;
// to bound only the wait use WithTimeout. The end of ctx does not release the
// lock, since work may still be under way: always Close it.
//
// If ctx ends first, the error matches ctx.Err() and says who holds the lock.
// Other errors: ErrNotAcquired (WithTimeout), ErrDeadlock, ErrUnsupported,
// ErrClosed, or the driver's. On any error nothing is held.
func Acquire(ctx context.Context, db *sql.DB, key string, opts ...Option) (*Lock, error) {
	keeper, req, err := prepare(ctx, db, key, opts)
	if err != nil {
		return nil, err
	}
	return keeper.Acquire(ctx, req)
}

// TryAcquire is Acquire without the wait: if someone else holds the lock it
// returns ErrNotAcquired at once. WithTimeout has no effect on it. A lease that is
// free while somebody else is in line for it is left to him; if he does not take
// it within a quarter of a second, he is stuck, and TryAcquire does.
func TryAcquire(ctx context.Context, db *sql.DB, key string, opts ...Option) (*Lock, error) {
	req, err := request(key, opts)
	if err != nil {
		return nil, err
	}
	req.Try = true
	keeper, err := conn.KeeperFor(ctx, db, &req)
	if err != nil {
		return nil, err
	}
	return keeper.Acquire(ctx, req)
}

// AcquireAll waits for the locks of all keys and returns them as one Lock, on one
// session; or it takes none. If all are free it is one round trip. The order of
// keys does not matter: AcquireAll takes them in an order of its own, the same
// in every process, so that those who use it cannot deadlock with each other;
// repeated keys count once. Close releases all. With Lease it takes them one after
// the other, a round trip each, and the loss of one is the loss of all. Its errors are Acquire's; what
// had been taken when it gives up is released within some seconds.
func AcquireAll(ctx context.Context, db *sql.DB, keys []string, opts ...Option) (*Lock, error) {
	keeper, req, err := prepare(ctx, db, "", opts)
	if err != nil {
		return nil, err
	}
	return keeper.AcquireAll(ctx, keys, req)
}

// prepare finds the keeper behind db and makes the request.
func prepare(ctx context.Context, db *sql.DB, key string, opts []Option) (*conn.Keeper, conn.Request, error) {
	req, err := request(key, opts)
	if err != nil {
		return nil, req, err
	}
	keeper, err := conn.KeeperFor(ctx, db, &req)
	return keeper, req, err
}
