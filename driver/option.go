package driver

import (
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/ngrok/sqlmw"

	"github.com/lockdb/lockdb/conn"
	"github.com/lockdb/lockdb/internal/lockkey"
)

// RawMode says what happens to lock statements that a program sends as SQL text
// (GET_LOCK, pg_advisory_lock, …) instead of through package lockctx.
type RawMode = conn.RawMode

// The raw modes.
const (
	RawPark   = conn.RawPark   // keep the session that such a statement left a lock on (default)
	RawRefuse = conn.RawRefuse // fail the statement
	RawOff    = conn.RawOff    // do not look
)

// PoolerMode says what to do when a connection pooler stands between lockdb and
// a PostgreSQL server.
type PoolerMode = conn.PoolerMode

// The pooler modes.
const (
	PoolerRefuse  = conn.PoolerRefuse  // session locks fail with ErrUnsupported (default)
	PoolerSession = conn.PoolerSession // the pooler is known to run in session mode
)

// Dialect names the family of servers that a DSN or a connector is for.
type Dialect string

// The dialects.
const (
	MySQL    Dialect = "mysql"    // MySQL, MariaDB and servers that speak as they do
	Postgres Dialect = "postgres" // PostgreSQL and servers that speak as it does
)

// The bounds of the TTL. Below the least, a pause of the garbage collector or of
// the network is taken for a death; the servers' own limits count whole seconds.
// Beyond the greatest, a lock of a lost client would be in the way for days.
const (
	minTTL = time.Second
	maxTTL = 24 * time.Hour
)

// Option is a setting of a Connector. It wins over the same setting in the DSN.
// A value out of bounds is an error of OpenConnector or NewConnector.
type Option func(*settings)

// settings is what options and DSN parameters write to.
type settings struct {
	conn.Options
	dialect Dialect // "" unless said
}

// WithTTL bounds how long a lock outlives a client that gives no sign of life:
// from 1 s to 24 h, 30 s by default. A session that holds locks is pinged three
// times in each. MySQL and MariaDB count whole seconds: there the server's own
// limit is the next one up. DSN: lockdb_ttl=30s.
func WithTTL(d time.Duration) Option { return func(s *settings) { s.TTL = d } }

// WithRawLocks says what happens to lock statements in SQL text (GET_LOCK,
// pg_advisory_lock, …). With RawPark, the default, the session on which a
// statement on the *sql.DB left a lock is taken out of the pool, for the goroutine
// that ran it, until its lock statements have released what is held; what is left
// at the end of a transaction, or when a *sql.Conn is closed, is released.
// RawRefuse fails such statements with ErrUnsupported. RawOff does not look.
// DSN: lockdb_raw=park.
func WithRawLocks(m RawMode) Option { return func(s *settings) { s.RawLocks = m } }

// WithMaxSessions limits the sessions that are kept for locks, beside the pool of
// the *sql.DB. 0, the default, is no limit; a negative number is an error. When
// all are in use, Acquire waits for one of them as for a lock, and TryAcquire
// returns ErrNotAcquired. Leases have as many connections of their own at most. The connection that is opened for a moment to test
// whether a server's locks exclude counts too; with a limit of 1 there is none.
// DSN: lockdb_max_sessions=0.
func WithMaxSessions(n int) Option { return func(s *settings) { s.MaxSessions = n } }

// WithMaxIdleSessions says how many lock sessions stay open while they hold no
// lock: 2 by default; 0 closes each with its last lock; a negative number is an
// error. DSN: lockdb_max_idle_sessions=2.
func WithMaxIdleSessions(n int) Option { return func(s *settings) { s.MaxIdleSessions = n } }

// WithNamespace puts ns before every lock name, so that applications that share a
// server do not share locks: [a-z0-9_.:-]{0,24}, and none by default.
// DSN: lockdb_namespace=.
func WithNamespace(ns string) Option { return func(s *settings) { s.Namespace = ns } }

// WithBusyTimeout bounds the wait of a statement under a lock's context while a
// transaction or an open result set occupies the lock's session: 5 s by default;
// 0 does not wait; a negative duration is an error. After it the statement fails
// with ErrBusy. DSN: lockdb_busy_timeout=5s.
func WithBusyTimeout(d time.Duration) Option { return func(s *settings) { s.BusyTimeout = d } }

// WithPooler says what to do behind a connection pooler such as PgBouncer, where
// session locks do not exclude unless each client has a server session of its
// own: PoolerRefuse (default) or PoolerSession. DSN: lockdb_pooler=refuse.
func WithPooler(m PoolerMode) Option { return func(s *settings) { s.Pooler = m } }

// WithLeaseTable names the table of leases: an identifier of letters, digits and
// '_' (at most 63 characters), also with a schema before it (schema.table);
// lockdb_lease by default. The first lease creates it, if it is missing. Processes
// exclude each other only if they name the same table. DSN: lockdb_lease_table=lockdb_lease.
func WithLeaseTable(name string) Option { return func(s *settings) { s.LeaseTable = name } }

// WithDialect says what server the DSN or the connector is for, where that cannot
// be told from it. DSN: lockdb_dialect=mysql or lockdb_dialect=postgres.
func WithDialect(d Dialect) Option { return func(s *settings) { s.dialect = d } }

// WithInterceptor puts i between lockdb and the real driver: it sees every call
// for pooled connections and for lock sessions, lockdb's own lock statements and
// pings included. nil, the default, is none. There is no DSN parameter.
func WithInterceptor(i sqlmw.Interceptor) Option { return func(s *settings) { s.Interceptor = i } }

// WithObserver has o told of the life of locks, with durations: each EventKind is
// an event. o must not block. nil, the default, is none. There is no DSN parameter.
func WithObserver(o Observer) Option { return func(s *settings) { s.Observer = o } }

// WithLogger has l receive what an operator should see: as a warning, each lock
// that was lost, or closed with a transaction open or a statement running, each
// session that had to be closed because it could not be released, and what SQL text
// left behind, keeps parked for long or releases in vain; as debug messages, what
// else an Observer is told. No message shows a password. nil, the
// default, is what slog.Default() is at the time of the message. There is no DSN
// parameter.
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.Logger = l } }

func newSettings() *settings { return &settings{Options: conn.DefaultOptions()} }

func (s *settings) apply(opts []Option) {
	for _, opt := range opts {
		if opt != nil {
			opt(s)
		}
	}
}

// leaseTable is what servers take without quotes, in MySQL and in PostgreSQL.
var leaseTable = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// validate reports the first setting that is out of bounds, under both its names.
func (s *settings) validate() error {
	switch {
	case s.TTL < minTTL || s.TTL > maxTTL:
		return fmt.Errorf("lockdb: the TTL (lockdb_ttl, WithTTL) is %v: it must be from %v to %v", s.TTL, minTTL, maxTTL)
	case s.MaxSessions < 0:
		return fmt.Errorf("lockdb: the limit of lock sessions (lockdb_max_sessions, WithMaxSessions) is %d: it must be 0, which is no limit, or more", s.MaxSessions)
	case s.MaxIdleSessions < 0:
		return fmt.Errorf("lockdb: the number of idle lock sessions (lockdb_max_idle_sessions, WithMaxIdleSessions) is %d: it must be 0 or more", s.MaxIdleSessions)
	case s.BusyTimeout < 0:
		return fmt.Errorf("lockdb: the busy timeout (lockdb_busy_timeout, WithBusyTimeout) is %v: it must be 0, which does not wait, or more", s.BusyTimeout)
	}
	switch s.RawLocks {
	case RawOff, RawPark, RawRefuse:
	default:
		return fmt.Errorf("lockdb: unknown raw mode %s (lockdb_raw, WithRawLocks): the modes are %q, %q and %q", show(string(s.RawLocks)), RawPark, RawRefuse, RawOff)
	}
	switch s.Pooler {
	case PoolerRefuse, PoolerSession:
	default:
		return fmt.Errorf("lockdb: unknown pooler mode %s (lockdb_pooler, WithPooler): the modes are %q and %q", show(string(s.Pooler)), PoolerRefuse, PoolerSession)
	}
	if err := s.dialect.validate(); err != nil {
		return err
	}
	if !leaseTable.MatchString(s.LeaseTable) {
		return fmt.Errorf("lockdb: the lease table (lockdb_lease_table, WithLeaseTable) is %s: it must be table or schema.table, each of letters, digits and '_', not beginning with a digit, at most 63 characters", show(s.LeaseTable))
	}
	return lockkey.CheckNamespace(s.Namespace)
}

func (d Dialect) validate() error {
	switch d {
	case "", MySQL, Postgres:
		return nil
	}
	return fmt.Errorf("lockdb: unknown dialect %s (lockdb_dialect, WithDialect): the dialects are %q and %q", show(string(d)), MySQL, Postgres)
}
