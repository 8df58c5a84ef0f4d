// Package conn is everything that database/sql touches, and the lock sessions
// behind it. Users need it only through packages driver and lockctx.
//
//   - conn is what database/sql pools. It owns one session of the inner driver,
//     and routes a statement to a lock's session when its context says so
//     (conn.go, stmt.go, stmtown.go, tx.go, rawaccess.go).
//   - session is a lock session: one server connection with the ledger of the
//     locks held on it, its keep-alive, its socket watch and its end
//     (session.go, sessionend.go, keepalive.go). A result set open on it is a rows
//     (rows.go, readahead.go).
//   - Lock is a held lock: its states, its context, its gate, its Close (lock.go,
//     context.go, gate.go, run.go, close.go).
//   - Keeper is one per *sql.DB: it opens sessions (dial.go, pool.go), queues who waits
//     (room.go, acquire.go, ask.go, contend.go) and releases (release.go). What a
//     server is, and whether its locks exclude, it learns before it trusts them
//     (truth.go, selftest.go), and asks again with every ping (proof.go).
//   - A Lock can be a lease, which package lease keeps (lease.go, leaselock.go,
//     leasekeeper.go, leasedial.go, leaseprepared.go). A transaction under leases has a fence, which
//     its Commit asks (fence.go, fencedtx.go, fencehand.go).
//   - InTx has the lock and the transaction share messages where the server allows it (intx.go,
//     pgpipe.go, mysqlbegin.go, xact.go).
//   - A multiplexed lock shares its session with others (multiplex.go, shared.go, beside.go). A
//     Pinned is a session without a lock (pin.go).
//   - Session locks that SQL text takes on a conn's own session are noted (raw.go,
//     rawledger.go, seenrows.go), and settled when the conn comes back to the pool: released, or
//     parked with the session (settle.go, park.go, spare.go), whose owner is a goroutine
//     (stack.go, census.go).
//   - What becomes of calls and locks is told to observers and the log, counted
//     and listed (observer.go, outcome.go, stats.go, held.go).
//
// Lifetimes: the Connector owns the Keeper, which lives until (*sql.DB).Close.
// The keeper owns its sessions and its goroutines (dials, waits at the server,
// keep-alives, closing of connections) and ends all of them in close. A Lock
// owns its session, or its leases, from grant to release. Cleanup never depends on a caller's
// context: it runs under a context of its own and a bound.
//
// Mutexes, in the order in which they may be taken: a session's io (held during
// calls into the inner driver), Keeper.mu, session.mu, and last those of Lock,
// gate, lockCtx and call, under which nothing else is taken. No call into
// database/sql is made under any of them.
package conn
