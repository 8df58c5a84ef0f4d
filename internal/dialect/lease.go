package dialect

import (
	"context"
	"errors"
	"time"
)

// Leases speaks the SQL of one table of leases. It keeps no state. Its methods
// are safe for concurrent use; each call is one round trip unless it says
// otherwise, and a statement of its own: never in anybody's transaction, except
// for the fences.
//
// Keys and owners are names of internal/lockkey: of an alphabet that needs no
// quoting. All times are the database's; what goes to and fro are durations.
type Leases interface {
	// Name is the table's name, with its schema once Find knows it.
	Name() string
	// DDL is the statement that creates the table. Its name is quoted: it may be a reserved word.
	// MySQL and MariaDB have it as it was given, PostgreSQL in lower case, as it takes names
	// without quotes.
	DDL() string
	// Setup prepares a session that runs nothing but lease statements: autocommit, READ COMMITTED,
	// read-write, a bound on the wait for row locks, and closed by the server after idle without a
	// statement. Behind a pooler it sets nothing: the statements bring what they need. It is one
	// round trip on PostgreSQL, three on MySQL and MariaDB.
	Setup(ctx context.Context, q Querier, idle time.Duration) (LeaseServer, error)
	// Find looks for the table and returns it with its schema, so that it is the same table
	// whatever the session's default schema becomes. ErrNoLeaseTable: there is none, or none that
	// the account may see. ErrLeaseTableShape: it is there, but cannot hold leases.
	Find(ctx context.Context, q Querier) (Leases, error)
	// Create creates the table, and succeeds if somebody else just has.
	Create(ctx context.Context, q Querier, s LeaseServer) error
	// Claim takes the lease if its row is missing or expired, or has the same owner; l.Token does
	// not matter. A refusal is no error. After an error Grant.Taken is valid still: a statement
	// that failed may have taken the companion.
	//
	// A refusal is right about the row as it is committed when the claim ends, unless the mode is
	// CompanionFree or a pooler stands between: then a release that is not committed yet may still
	// have refused it.
	Claim(ctx context.Context, q Querier, s LeaseServer, l Lease, c Companion) (Grant, error)
	// Look reads a row.
	Look(ctx context.Context, q Querier, key string) (row LeaseRow, found bool, err error)
	// Renew gives each lease its TTL again if its row still has its owner and token and was not
	// released, and tells how many it renewed. leases are sorted by key, at most 1,000.
	Renew(ctx context.Context, q Querier, s LeaseServer, leases []Lease) (renewed int, err error)
	// Unlocked tells which of the leases (by index) have a row that no other transaction keeps at this moment: a
	// renewal would not wait for it. It is an error where the server cannot say.
	Unlocked(ctx context.Context, q Querier, s LeaseServer, leases []Lease) ([]int, error)
	// Moved tells which of the leases (by index) have not their owner and token any more, or were released.
	Moved(ctx context.Context, q Querier, s LeaseServer, leases []Lease) ([]int, error)
	// Release ends the lease, if its row still has its owner and token, and keeps the row; and, in
	// the same statement, releases the companion once if it is not nil. freed tells of that: it is
	// false if the row was not the lease's, since then nothing is done, and behind a pooler.
	// A lease that was released before is released again: released is true.
	Release(ctx context.Context, q Querier, s LeaseServer, l Lease, companion *Name) (released, freed bool, err error)
	// Fence checks, in the transaction that is open on q, that the rows of the leases (sorted by
	// key) still have their owners and tokens, and keeps it so until the transaction ends.
	// ErrMoved: one of them has not. Another error may mean the same: a steal is a conflict under
	// some isolation levels. Moved tells.
	Fence(ctx context.Context, q Querier, s LeaseServer, leases []Lease) error
	// FenceAndCommit is Fence and COMMIT in one message, where s.FenceCommits. After an error of
	// the fence the transaction is open still, or aborted: the caller rolls back. COMMIT's own
	// error is the driver's.
	FenceAndCommit(ctx context.Context, q Querier, s LeaseServer, leases []Lease) error
	// FenceQuery is Fence for one lease as a query for others to run: it gives a row with a 1 if
	// the lease is still its own, else no row.
	FenceQuery(s LeaseServer, l Lease) string
	// Prune deletes at most limit rows that have been idle for age, since they expired and since
	// the lease was acquired last, and tells how many. It may take two round trips.
	Prune(ctx context.Context, q Querier, s LeaseServer, age time.Duration, limit int) (int64, error)
	// Fault tells what an error of these statements means.
	Fault(err error) LeaseFault
}

// Lease is a lease as its row has it.
type Lease struct {
	Key   string
	Owner string
	Token int64
	TTL   time.Duration
	// Seen: a claim's row is there, and probably free. It need not be true: the claim is
	// quicker if it is, and takes another round trip if the row is gone, or on MySQL and
	// MariaDB the companion not free.
	Seen bool
}

// LeaseRow is what a row says.
type LeaseRow struct {
	Owner string
	Token int64
	Left  time.Duration // until it expires; not positive if it has
}

// Grant is the answer to a claim.
type Grant struct {
	Granted bool
	Token   int64 // if granted
	// Taken: the session has the companion now, granted or not.
	Taken bool
	// Known: Holder and Left tell who holds the lease and how long still.
	Known  bool
	Holder string
	Left   time.Duration
}

// Companion is the session lock that goes with a lease: its holder keeps it, so that those
// who wait for it form a queue and wake up at its release. It decides nothing.
type Companion struct {
	Mode CompanionMode
	Name Name
}

// CompanionMode says what a claim does with the companion.
type CompanionMode uint8

// The modes.
const (
	CompanionIgnored CompanionMode = iota // do not look at it
	CompanionFree                         // claim only if no other session has it
	CompanionTaken                        // claim only if this session gets it without waiting, and keep it

	companionModes = iota
)

// LeaseServer is what a session said at Setup.
type LeaseServer struct {
	SessionID int64
	// Pooled: a pooler stands between, so that nothing may be left on the session.
	Pooled bool
	// MariaDB, not MySQL.
	MariaDB bool
	// SnapshotIsolation: the server knows innodb_snapshot_isolation.
	SnapshotIsolation bool
	// FenceCommits: FenceAndCommit can be had.
	FenceCommits bool
	// StatementLog: the server refuses READ COMMITTED because of its binary log's format.
	StatementLog bool

	makeWrite bool // sessions are read-only unless they ask
}

// The errors of leases.
var (
	ErrNoLeaseTable    = errors.New("the table of leases does not exist")
	ErrLeaseTableShape = errors.New("the table of leases has another shape")
	ErrNoDatabase      = errors.New("no database is selected in which a table of leases could be: name one in the DSN, or the table with its schema (lockdb_lease_table)")
	// ErrMoved is a fence's: the row of a lease has not its owner and token any more.
	ErrMoved = errors.New("the lease has moved on")
	// ErrCommitUnknown is FenceAndCommit's: it was cut short, and COMMIT may have taken effect.
	ErrCommitUnknown = errors.New("the server cut short the statement that contained COMMIT")
)

// LeaseFault is what an error means for a lease statement.
type LeaseFault uint8

// The faults.
const (
	LeaseFaultOther     LeaseFault = iota // of the connection, or unknown
	LeaseFaultRetry                       // a conflict with another transaction: nothing was done
	LeaseFaultNoTable                     // the table does not exist
	LeaseFaultShape                       // the table has another shape
	LeaseFaultForbidden                   // a privilege is missing
	LeaseFaultReadOnly                    // the server or the session is read-only
	LeaseFaultNoLocks                     // the server has no session locks to be companions
	LeaseFaultRefused                     // any other answer of the server
)
