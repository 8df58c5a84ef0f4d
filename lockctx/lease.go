package lockctx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lockdb/lockdb/conn"
)

// Lease makes the lock a lease: a row of a table (lockdb_lease_table) with an
// owner, a fencing token and an expiry by the database's clock. It is renewed until
// Close. If the process dies, or cannot renew it, it ends after ttl, and another one
// gets it: then the lock's Context has ended with ErrLost, and a transaction begun
// through db under that Context cannot commit any more, however late it comes to it: each looks
// at the row at Commit, inside itself. What is not in such a transaction is not so
// protected: statements without one, a COMMIT sent as SQL, the implicit commit of
// MySQL's DDL, other databases; for these there is Token.
//
// ttl is from 10 ms to 365 days. Below a second a pause of the garbage collector
// or the network soon costs the lease: that is warned of, once. The table is created
// when it is first missed; LeaseDDL tells what to create where lockdb may not.
//
// A lease is no session: statements under its Context run on db's pool as ever, and
// transactions too. DB, Conn and InTx open a connection beside it.
//
// Acquire for the key of a lease whose Context ctx derives from nests: it gives the
// same lease and token. For all others the lease is excluded as any lock is. A key's
// lease and its session lock know nothing of each other.
func Lease(ttl time.Duration) Option {
	return func(r *conn.Request) error {
		if ttl < conn.MinLease || ttl > conn.MaxLease {
			return fmt.Errorf("lockdb: Lease(%v): the TTL must be from %v to %v", ttl, conn.MinLease, conn.MaxLease)
		}
		r.Lease = ttl
		return nil
	}
}

// Owner says who holds the lease, instead of a name that no other process has. Who
// comes with the id that a lease has already takes it over at once, with a new
// token, and the former holder loses it: so a process that starts again need not
// wait for the expiry of its own lease. It asserts that the other one is dead. Calls
// of one *sql.DB wait for each other nevertheless. id has 1 byte to 64 KiB.
func Owner(id string) Option {
	return func(r *conn.Request) error {
		if id == "" {
			return errors.New("lockdb: the id of Owner is empty: give the holder a name, or leave Owner out")
		}
		if len(id) > 64<<10 {
			return fmt.Errorf("lockdb: the id of Owner has %d bytes: use at most %d", len(id), 64<<10)
		}
		r.Owner = id
		return nil
	}
}

// RenewEvery is the interval at which the lease is renewed: a third of its TTL,
// unless said, and not more than that. Shorter ones give a renewal that fails more
// chances to be repeated, at the price of more statements; those of all leases with
// one interval go together. A renewal that takes longer than two thirds of d, and than
// 50 ms, counts as failed: d has to leave the round trip to the server some room.
func RenewEvery(d time.Duration) Option {
	return func(r *conn.Request) error {
		if d <= 0 {
			return fmt.Errorf("lockdb: RenewEvery(%v) is not positive: leave it out for a third of the TTL", d)
		}
		r.Renew = d
		return nil
	}
}

// Fence makes in tx the check that Commit makes in a transaction begun under a
// lease's Context, for one that was not: ctx is the lease's Context, tx a transaction
// on the lease's database, of whatever *sql.DB. It looks whether the lease is still
// held, and keeps it so until tx ends; call it as the last thing before tx.Commit: on MySQL and MariaDB
// the lease cannot be renewed in between.
// nil means that what tx commits, it commits while the lease is held. If the lease
// has moved on, the error matches ErrLost, and tx must be rolled back, as on any
// error. Without a lease in ctx the error matches ErrUnsupported, and so it does in
// a read-only transaction of PostgreSQL, which the question aborts: it commits
// nothing and needs no Fence.
//
// It is a round trip for each lease that ctx is under.
func Fence(ctx context.Context, tx *sql.Tx) error { return conn.Fence(ctx, tx) }

// Prune deletes the rows of leases that have been idle, neither held nor acquired,
// for age, and tells how many. The table has a row for each key that there ever was;
// where keys are many and never come again, call it from time to time. Tokens go on
// growing nevertheless. A negative age is an error.
func Prune(ctx context.Context, db *sql.DB, age time.Duration) (int64, error) {
	if age < 0 {
		return 0, fmt.Errorf("lockdb: Prune: the age is %v: it must not be negative", age)
	}
	keeper, err := conn.KeeperOf(ctx, db)
	if err != nil {
		return 0, err
	}
	return keeper.Prune(ctx, age)
}

// LeaseDDL returns the statement that creates the table of leases, for migrations:
// where db's user may not create tables, it must be there before the first lease. It
// asks no server.
func LeaseDDL(ctx context.Context, db *sql.DB) (string, error) {
	keeper, err := conn.KeeperOf(ctx, db)
	if err != nil {
		return "", err
	}
	return keeper.LeaseDDL(), nil
}
