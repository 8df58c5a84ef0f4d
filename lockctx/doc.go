// Package lockctx takes locks in the database that a *sql.DB opened by lockdb
// connects to, and gives each a context that carries its connection:
//
//	lk, err := lockctx.Acquire(ctx, db, "order:42")
//	if err != nil {
//		return err
//	}
//	defer lk.Close()
//	tx, err := db.BeginTx(lk.Context(), nil) // runs on the lock's own session
//
// A lock lives on one server session, which nobody else gets while it is held.
// Statements and transactions under the lock's Context run on that session, so
// a transaction can commit only while the lock is held: if the session dies,
// both die. Do and InTx put the steps in the right order.
//
// With the option Lease a lock is a row of a table instead, with an expiry and a
// fencing token. There too a transaction begun under the Context can commit only
// while the lease is held: it looks at the row, at Commit, inside itself.
//
// Lifetimes: Acquire opens or reuses a session of the keeper that belongs to
// the *sql.DB; Close releases the lock and gives the session back; closing the
// *sql.DB releases what is left. The lock's Context ends with Acquire's ctx,
// with Close, and with the loss of the lock, whichever comes first.
package lockctx
