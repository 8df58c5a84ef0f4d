package lockctx

import (
	"context"
	"database/sql"
)

// Do acquires the lock, runs fn under its context and closes the lock, also
// when fn panics. What fn does with db under that context runs on the lock's
// session; with Lease or Multiplexed, which have none of their own, on db's pool.
//
// It returns fn's error joined with that of Close: nil means that the lock was
// held from before fn until after it. If the lock could not be acquired, fn
// does not run and the error is Acquire's.
func Do(ctx context.Context, db *sql.DB, key string, fn func(context.Context) error, opts ...Option) error {
	keeper, req, err := prepare(ctx, db, key, opts)
	if err != nil {
		return err
	}
	return keeper.Do(ctx, req, fn)
}

// InTx acquires the lock, begins a transaction under it, runs fn, commits, and
// closes the lock: in that order, so that no one who takes the lock afterwards
// misses what fn did. It needs no slot of db's pool. txOpts may be nil. The lock
// and BEGIN travel together, and so do COMMIT and the release: uncontended, it
// takes as many round trips as the transaction alone on PostgreSQL and MariaDB,
// one more on MySQL, and two more where the server does not understand such
// statements, an interceptor is to see BEGIN and COMMIT, or, on MySQL, txOpts are
// not the default. With Lease the transaction has a connection of its own, beside
// the pool.
//
// If fn returns an error or panics, the transaction is rolled back; if the lock
// is lost before the commit, nothing is committed and the error matches
// ErrLost. ErrOutcomeUnknown beside it means that the connection ended while
// COMMIT was under way, or that a KILL QUERY or the server's time limit met the
// COMMIT on MariaDB. nil means committed while the lock was held. The end of ctx
// does not break COMMIT off: it may go on for lockdb_ttl and about 5 s more.
//
// tx is not of db, but of the lock's session: a *sql.Stmt that was prepared on db does
// not go with tx.Stmt, so prepare it on tx.
//
// Run the statements on tx. It occupies the lock's session: one under fn's
// context that is not on tx waits for it, in vain, and fails with ErrBusy after
// lockdb_busy_timeout. On MySQL the transaction may be one of autocommit=0, in
// which SET autocommit would commit, and is refused with ErrUnsupported. One that
// its text does not show, in a procedure or behind EXECUTE, does commit.
func InTx(ctx context.Context, db *sql.DB, key string, txOpts *sql.TxOptions,
	fn func(context.Context, *sql.Tx) error, opts ...Option,
) error {
	keeper, req, err := prepare(ctx, db, key, opts)
	if err != nil {
		return err
	}
	return keeper.InTx(ctx, req, txOpts, fn)
}
