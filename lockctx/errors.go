package lockctx

import "github.com/lockdb/lockdb/conn"

// The errors that callers can tell apart with errors.Is. What lockdb returns
// also matches the driver's error or the context's below it, if there is one
// (errors.As to *mysql.MySQLError or *pgconn.PgError works). Errors that concern
// a lock are a [*conn.Error], which has its key.
var (
	// ErrNotAcquired occurs when the lock is held by someone else, or all
	// sessions that there may be for locks are in use, and the time to wait,
	// TryAcquire's or WithTimeout's, is over: the message says which, and who
	// holds the lock. Nothing is held.
	ErrNotAcquired = conn.ErrNotAcquired

	// ErrLost occurs when a lock ended without Close: the server ended its
	// session, the connection broke, or no sign of life came from the server
	// within the TTL; or a lease was not renewed in time, or its row has another
	// owner or token. It is the cause of the lock's context, and the error of
	// Close, Err, and of statements and commits under the context, except that
	// a *sql.Tx whose context has ended mostly says sql.ErrTxDone before lockdb
	// is asked: Err tells why. An open transaction has been rolled back by the
	// server, or will be; under a lease it is rolled back by lockdb, at Commit at
	// the latest; under a multiplexed lock by database/sql, if it is in time.
	ErrLost = conn.ErrLost

	// ErrReleased occurs on use of a lock after its Close: it is the cause of
	// the lock's context then, and the error of statements and commits under
	// it (of a *sql.Tx sql.ErrTxDone, as with ErrLost). Close itself returns an
	// error that matches it if a transaction was open, which was rolled back, or if
	// a lease could not be released at the server, where it then lasts until its
	// expiry.
	ErrReleased = conn.ErrReleased

	// ErrDeadlock occurs when the server found that two sessions wait for
	// locks that the other holds, and chose this one to fail; and at once for a
	// key that the context holds already as a multiplexed lock, if Multiplexed is
	// left out, or around a pin. The lock asked for is not held; locks acquired
	// before still are.
	ErrDeadlock = conn.ErrDeadlock

	// ErrBusy occurs when a statement under a lock's context has waited the
	// busy timeout (lockdb_busy_timeout, 5 s) while a result set or a
	// transaction under the same lock stayed open; at once when that is a result set
	// of the same *sql.Tx or *sql.Conn, which could not be closed meanwhile, and when a
	// transaction is to begin on a *sql.Conn that has one open, and one of them is under
	// a lock. The lock is still held.
	ErrBusy = conn.ErrBusy

	// ErrUnsupported occurs where session locks would not exclude (a pooler in
	// transaction mode, a replica, a Galera cluster, a server that grants a lock
	// twice), for a second lock on a session of a server so old that it drops
	// the first, when an option does not fit the server or the kind of lock,
	// when PostgreSQL's lock table has no room for more multiplexed locks, and
	// when a statement under a lock's context would drop the lock. The message says what to do instead. The state of locks is unchanged.
	ErrUnsupported = conn.ErrUnsupported

	// ErrClosed occurs when the *sql.DB is closed: for those who wait for a
	// lock, and when a lock is closed afterwards.
	ErrClosed = conn.ErrClosed

	// ErrOutcomeUnknown occurs, together with ErrLost if the lock is a session lock,
	// when the connection ended while COMMIT was under way, and on MariaDB when KILL QUERY
	// or the server's time limit met the COMMIT of InTx or of a transaction under a
	// lease: the transaction may have taken effect or not. Look at the data to learn it.
	ErrOutcomeUnknown = conn.ErrOutcomeUnknown
)
