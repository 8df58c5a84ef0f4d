// Package lease keeps leases: rows of a table with an owner, a fencing token and
// an expiry by the database's clock.
//
// The row alone is the lease. Beside it the holder keeps a session lock, the
// companion, on a connection of the Manager's: those who wait for the lease wait
// for the companion at the server, which queues them first come first served and
// wakes one at its release. It decides nothing; where it cannot be had (behind a
// pooler, or too many at a time) waiters look at the row from time to time. A
// claim leaves the row alone while somebody else has the companion, so that nobody
// overtakes the queue, unless the row has expired, or stays free although its
// companion is held: then the one who has the companion is stuck.
//
//   - Manager is one per *sql.DB: the connections (pool.go, session.go, line.go, companion.go,
//     mind.go), the table (table.go) and the goroutines.
//   - room is where this process waits for one lease (room.go); who has the turn
//     there claims the row (acquire.go, ask.go, seen.go) and waits across processes
//     (await.go), under a context that also ends when waits are over (waiting.go).
//   - Lease is a lease that is held (lease.go): beat renews it (beat.go, renew.go), it
//     ends when no renewal was confirmed in time (deadline.go), Release gives it
//     back (release.go).
//
// Lifetimes: the Manager owns its connections and goroutines and ends all of them
// in Close. Cleanup does not depend on a caller's context: it has a bound of its own.
//
// Manager.mu guards the rooms, the leases and the lines; no I/O and no callback
// happens under it, and no other mutex is taken. A line's turn is held around each
// statement on it, and never waited for under mu.
package lease
