package lockctx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Do acquires the lock, runs fn under its context and closes the lock, also
// when fn panics. What fn does with db under that context runs on the lock's
// session.
//
// It returns fn's error joined with that of Close: nil means that the lock was
// held from before fn until after it. If the lock could not be acquired, fn
// does not run and the error is Acquire's.
func Do(ctx context.Context, db *sql.DB, key string, fn func(context.Context) error, opts ...Option) (err error) {
	lk, err := Acquire(ctx, db, key, opts...)
	if err != nil {
		return err
	}
	defer func() { err = join(err, lk.Close()) }()
	return fn(lk.Context())
}

// InTx acquires the lock, begins a transaction under it, runs fn, commits, and
// closes the lock: in that order, so that no one who takes the lock afterwards
// misses what fn did. It needs no slot of db's pool. txOpts may be nil.
//
// If fn returns an error or panics, the transaction is rolled back; if the lock
// is lost before the commit, nothing is committed and the error matches
// ErrLost. ErrOutcomeUnknown beside it means that the connection ended while
// COMMIT was under way. nil means committed while the lock was held.
//
// Use fn's context and transaction alike: statements on either run in the
// transaction's session, but only those on tx are in the transaction.
func InTx(ctx context.Context, db *sql.DB, key string, txOpts *sql.TxOptions,
	fn func(context.Context, *sql.Tx) error, opts ...Option,
) (err error) {
	lk, err := Acquire(ctx, db, key, opts...)
	if err != nil {
		return err
	}
	committed := false
	defer func() {
		cerr := lk.Close()
		if committed && errors.Is(cerr, ErrLost) {
			cerr = nil // the lock was held when the commit was acknowledged
		}
		err = join(err, cerr)
	}()
	tx, err := lk.DB().BeginTx(lk.Context(), txOpts)
	if err != nil {
		return fmt.Errorf("lockdb: begin under the lock %q: %w", key, err)
	}
	defer func() {
		if !committed {
			_ = tx.Rollback()
		}
	}()
	if err := fn(lk.Context(), tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		if errors.Is(err, sql.ErrTxDone) && lk.Err() != nil {
			err = errors.Join(err, lk.Err()) // database/sql rolled back first, because the lock ended
		}
		return err
	}
	committed = true
	return nil
}

// join leaves out what the first error already says.
func join(err, cerr error) error {
	switch {
	case cerr == nil:
		return err
	case err == nil:
		return cerr
	case errors.Is(cerr, ErrLost) && errors.Is(err, ErrLost):
		return err
	}
	return errors.Join(err, cerr)
}
