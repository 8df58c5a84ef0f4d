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
// With the option Lease a lock is a row of a table instead, with an owner, an
// expiry by the database's clock and a fencing token. It needs no session, so
// that it outlives connections and restarts of the server, and works behind
// poolers. Transactions begun under its Context run on db's pool as ever, and can
// commit only while the lease is held: they look at the row, at Commit, inside
// themselves. Statements without a transaction are not so protected.
//
// With the option Multiplexed many locks share one session. What runs under the
// Context of such a lock runs on db's pool, and nothing ties its commit to the lock.
//
// Lead runs a function on the one process that holds a lock, and again after a
// loss.
//
// Pin gives a session and no lock, for code that takes and releases session locks in
// SQL text itself. Such text also works without it, for one goroutine at a time: see
// package driver.
//
// Lifetimes: Acquire opens or reuses a session of the keeper that belongs to
// the *sql.DB (for leases, a few connections that all of them share); Close
// releases the lock and gives the session back; closing the *sql.DB releases
// what is left. The lock's Context ends with Acquire's ctx, with Close, and with
// the loss of the lock, whichever comes first.
package lockctx
