package conn

import (
	"log/slog"
	"time"

	"github.com/ngrok/sqlmw"
)

// Defaults of Options. The driver package documents the DSN parameter and the
// Go option that set each of them.
const (
	DefaultTTL             = 30 * time.Second
	DefaultMaxIdleSessions = 2
	DefaultBusyTimeout     = 5 * time.Second
	DefaultLeaseTable      = "lockdb_lease"
)

// RawMode says what happens to lock statements that a program sends as SQL text
// (GET_LOCK, pg_advisory_lock, …) instead of through package lockctx.
type RawMode string

// The raw modes.
const (
	RawPark   RawMode = "park"   // keep the session that such a statement left a lock on (default)
	RawRefuse RawMode = "refuse" // fail the statement
	RawOff    RawMode = "off"    // do not look
)

// PoolerMode says what to do when a connection pooler stands between lockdb and
// a PostgreSQL server, where session locks do not exclude unless the pooler
// gives each client a server session of its own.
type PoolerMode string

// The pooler modes.
const (
	PoolerRefuse  PoolerMode = "refuse"  // session locks fail with ErrUnsupported (default)
	PoolerSession PoolerMode = "session" // the pooler is known to run in session mode
)

// Options are the settings of a Connector. Their zero values are not the
// defaults: start from DefaultOptions.
type Options struct {
	// TTL bounds how long a lock outlives a client that gives no sign of life.
	TTL time.Duration
	// RawLocks says what happens to lock statements in SQL text.
	RawLocks RawMode
	// MaxSessions limits the lock sessions; 0 means no limit.
	MaxSessions int
	// MaxIdleSessions is how many lock sessions are kept open with no lock.
	MaxIdleSessions int
	// Namespace is put before every lock name; "" leaves names as they are.
	Namespace string
	// BusyTimeout bounds the wait for a lock's session while a transaction or
	// a result set occupies it.
	BusyTimeout time.Duration
	// Pooler says what to do behind a connection pooler.
	Pooler PoolerMode
	// LeaseTable names the table of leases.
	LeaseTable string
	// Interceptor, if not nil, sees every call to the inner driver.
	Interceptor sqlmw.Interceptor
	// Observer, if not nil, is told of the life of locks.
	Observer Observer
	// Logger receives what an operator should see; nil means slog.Default().
	Logger *slog.Logger
}

// DefaultOptions returns the settings that hold where the user says nothing.
func DefaultOptions() Options {
	return Options{
		TTL:             DefaultTTL,
		RawLocks:        RawPark,
		MaxIdleSessions: DefaultMaxIdleSessions,
		BusyTimeout:     DefaultBusyTimeout,
		Pooler:          PoolerRefuse,
		LeaseTable:      DefaultLeaseTable,
	}
}
