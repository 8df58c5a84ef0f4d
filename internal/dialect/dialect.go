// Package dialect holds all lock SQL: how a key becomes a name on the server,
// how a session lock is tried, awaited, released and looked at, and what a
// server's errors mean. It keeps no state and opens nothing; the caller gives
// it a session that nobody else uses for the duration of the call.
package dialect

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/lockdb/lockdb/internal/sqlscan"
)

// Querier is one server session.
type Querier interface {
	// QueryRow returns the first row of the result, or nil if there is none.
	QueryRow(ctx context.Context, query string, args ...driver.NamedValue) ([]driver.Value, error)
	// QueryRows returns all rows' first columns.
	QueryRows(ctx context.Context, query string) ([]driver.Value, error)
	// QuerySimple is QueryRow for a text that is used once: it must not leave
	// a prepared statement behind.
	QuerySimple(ctx context.Context, query string) ([]driver.Value, error)
	// Exec runs a text that may hold several statements where the server
	// takes them in one message.
	Exec(ctx context.Context, query string) error
	// Run runs one statement and returns the driver's LastInsertId, where it has
	// one, and how many rows it affected.
	Run(ctx context.Context, query string, args ...driver.NamedValue) (lastInsertID, affected int64, err error)
	// QueryAll returns all rows.
	QueryAll(ctx context.Context, query string, args ...driver.NamedValue) ([][]driver.Value, error)
	// QueryScript runs several statements as one message, for a PostgreSQL server of
	// which HandshakePID is known, and returns the first row of the last one's
	// result, each value as text, or nil if there is none.
	QueryScript(ctx context.Context, script string) ([]driver.Value, error)
	// HandshakePID is the process id that a PostgreSQL server gave at the
	// handshake, 0 if it cannot be known.
	HandshakePID() uint32
}

// Dialect speaks one family's lock SQL. Its methods are safe for concurrent use.
type Dialect interface {
	// Name is "mysql" or "postgres".
	Name() string
	// Resolve turns a user's key into the lock that the server knows.
	Resolve(namespace, key string) (Name, error)
	// Open prepares a session to hold locks: the server itself ends it after
	// ttl without a sign of life, and says what kind of server it is.
	Open(ctx context.Context, q Querier, ttl time.Duration) (Server, error)
	// Cluster tells why session locks do not exclude on the server, for what
	// does not change while it runs and Open does not ask; "" if nothing says
	// so. It is asked once per server.
	Cluster(ctx context.Context, q Querier) (unsupported string, err error)
	// Owner asks who holds a lock that this session was just granted.
	Owner(ctx context.Context, q Querier, s Server, n Name) (Owner, error)
	// Check is a ping that asks, as far as the server is known to tell it,
	// whether the session still holds its locks and is still where it was.
	// changed says what is not so; "" if all is well. It must not be used
	// inside a transaction.
	Check(ctx context.Context, q Querier, s Server, held []Name) (changed string, err error)
	// Try takes the lock if it is free, in one round trip.
	Try(ctx context.Context, q Querier, n Name) (bool, error)
	// TryAll is Try for several locks, in one round trip: it takes each that
	// is free, and tells which it took.
	TryAll(ctx context.Context, q Querier, names []Name) ([]bool, error)
	// Wait waits for the lock at the server for about slice. It must not be
	// used inside a transaction.
	Wait(ctx context.Context, q Querier, n Name, slice time.Duration) (bool, error)
	// Release releases the lock once; false: the session did not hold it.
	Release(ctx context.Context, q Querier, n Name) (bool, error)
	// ReleaseAll releases every session lock of the session.
	ReleaseAll(ctx context.Context, q Querier) error
	// LockCapacity is how many locks the server's lock table has room for, of all
	// who use it; 0 if it has no table of a given size.
	LockCapacity(ctx context.Context, q Querier) (int, error)
	// Holder tells in words which session holds the lock, "" if none does or
	// the server does not say.
	Holder(ctx context.Context, q Querier, n Name) (string, error)
	// Guard looks at a statement that is to run on a session that holds the locks.
	Guard(query string, args []driver.NamedValue, held []Name) Verdict
	// RawScan tells what a statement may do with session locks. It allocates nothing.
	RawScan(query string) sqlscan.Verdict
	// RawPlain gives the call of a statement that is one plain call of a lock
	// function, the result of which tells what it did.
	RawPlain(query string, args []driver.NamedValue) (RawCall, bool)
	// RawLocks are the locks that the calls in a statement name, as RawHeld wants
	// them; known is false if there may be others.
	RawLocks(query string, args []driver.NamedValue) (locks []string, known bool)
	// RawOnlyReleases tells of a statement that calls lock functions that none of
	// them can take a lock.
	RawOnlyReleases(query string) bool
	// RawHeld asks how many session locks the session holds, outside a transaction.
	// locks are the names that can be meant, all of them if all is true. known is
	// false if there may be more than n: the server does not say. It can be several
	// round trips.
	RawHeld(ctx context.Context, q Querier, locks []string, all bool) (n int64, known bool, err error)
	// RawReleaseAll releases every session lock of the session. Of one of which
	// RawHeld does not know it tells how many there were.
	RawReleaseAll(ctx context.Context, q Querier) (n int64, err error)
	// Classify tells what an error of the server means.
	Classify(err error) Class
	// Leases speaks the SQL of a table of leases: table, or schema.table, which
	// is an identifier that needs no quotes.
	Leases(table string) Leases
}

// Server is what a session's server said of itself.
type Server struct {
	SessionID int64  // CONNECTION_ID() or pg_backend_pid()
	Version   string // as the server puts it
	// Unsupported says why session locks do not exclude on this server and
	// what to do instead; "" if they do.
	Unsupported string
	// Pooler is true when a pooler stands between: Unsupported holds unless
	// the pooler is known to be in session mode.
	Pooler bool
	// Identity is the same for the sessions of one server, as far as servers
	// can be told apart, seen through a pooler or not.
	Identity string
	// OneLock is true if a second GET_LOCK on a session drops the first.
	OneLock bool
	// NoAutocommit is true if the session commits no statement by itself: each
	// may leave a transaction open.
	NoAutocommit bool
	// TellsRole is true if the server says whether it is a replica.
	TellsRole bool
	// Owner is the best that the server is known to say of who holds a lock:
	// the caller sets it after asking for one that it holds.
	Owner Owner
	// Fusion is how the server takes a lock and begins a transaction in one
	// statement: the caller sets it after FindFusion. FusionNone on PostgreSQL.
	Fusion Fusion
}

// Owner is what a server says of who holds a lock.
type Owner uint8

// The answers.
const (
	OwnerUnknown Owner = iota // it does not say
	OwnerNobody               // nobody, or not this session
	OwnerSomeone              // somebody, but it does not say whether it is this session
	OwnerSession              // this session
)

// Verdict is what Guard found in a statement's text.
type Verdict struct {
	// Refuse says what in the statement would drop a lock of lockdb's; "" if
	// nothing does.
	Refuse string
	// MayLock is true if the statement may take session locks of its own.
	MayLock bool
	// Locks is true if a call that takes one stands in the text.
	Locks bool
	// MayBegin is true if the statement may leave a transaction open.
	MayBegin bool
	// Autocommit is true if the statement may switch it: from then on every
	// statement may leave a transaction open.
	Autocommit bool
	// Rebinds is true if the same text may mean something else to a server
	// that prepares it after the statement.
	Rebinds bool
	// LocksTables is true if the statement may lock tables until START TRANSACTION,
	// or UNLOCK TABLES, on MySQL.
	LocksTables bool
}

// Class is what an error means for a lock.
type Class uint8

// The classes of errors.
const (
	ClassOther       Class = iota // not an answer of the server
	ClassServer                   // an answer of the server with no meaning for locks: the session lives
	ClassDeadlock                 // the server found a deadlock among locks
	ClassServerFull               // the server takes no more connections
	ClassLockTable                // the server's lock table is full
	ClassUnsupported              // the server has no such locks
	ClassGone                     // the server says that the session is over
)

// ErrNull is what GET_LOCK's NULL means: an error that the server does not name.
var ErrNull = errors.New("the server answered NULL, which stands for an error such as KILL QUERY or no memory")

// truth reads an answer; null is true also of one that nobody can read.
func truth(v driver.Value) (val, null bool) {
	switch v := v.(type) {
	case nil:
		return false, true
	case bool:
		return v, false
	case int64:
		return v == 1, false
	case []byte:
		return string(v) == "1" || string(v) == "t", false
	case string:
		return v == "1" || v == "t", false
	}
	return false, true
}

// verdicts reads the answers to several tries; a NULL among them is an error.
func verdicts(values []driver.Value, want int) ([]bool, error) {
	if len(values) != want {
		return nil, fmt.Errorf("%d answers to tries for %d locks", len(values), want)
	}
	granted := make([]bool, want)
	for i, v := range values {
		yes, null := truth(v)
		if null {
			return nil, ErrNull
		}
		granted[i] = yes
	}
	return granted, nil
}

func text(v driver.Value) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}
