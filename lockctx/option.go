package lockctx

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockdb/lockdb/conn"
	"github.com/lockdb/lockdb/internal/dialect"
)

// Option changes how a lock is acquired.
type Option func(*conn.Request) error

// WithTimeout bounds the wait for the lock: after d, Acquire returns
// ErrNotAcquired. 0 means not to wait at all, like TryAcquire; a negative d is
// an error. Without it only the context bounds the wait. The meaning is the
// same, to the millisecond, on every server.
func WithTimeout(d time.Duration) Option {
	return func(r *conn.Request) error {
		if d < 0 {
			return fmt.Errorf("lockdb: WithTimeout(%v) is negative: leave it out to wait for as long as the context lasts", d)
		}
		r.Timeout, r.Try = d, d == 0
		return nil
	}
}

// AdvisoryID takes PostgreSQL's advisory lock of that bigint instead of the
// one that the key's hash names, to meet code that calls pg_advisory_lock(id).
// The key stays the lock's name in messages. On MySQL and MariaDB, where the
// key itself is the name, Acquire returns ErrUnsupported.
func AdvisoryID(id int64) Option {
	return advisory(dialect.AdvisoryID(id))
}

// AdvisoryPair is AdvisoryID for pg_advisory_lock(class, id), which is a key
// space of its own.
func AdvisoryPair(class, id int32) Option {
	return advisory(dialect.AdvisoryPair(class, id))
}

func advisory(name dialect.Name) Option {
	return func(r *conn.Request) error {
		if r.Name != nil && *r.Name != name {
			return errors.New("lockdb: give AdvisoryID or AdvisoryPair once")
		}
		r.Name = &name
		return nil
	}
}

// Multiplexed has the lock share a server session with other multiplexed locks:
// ten thousand of them, each of its own key, need no more than one. Its Context
// only tells of the end of the lock: what runs under it runs on the pool's
// connections, and may commit after a loss or after Close; that is what the session
// of its own is for. So InTx, AcquireAll, Lock.Conn, Lock.DB and Lease do not go
// with it (ErrUnsupported). When the shared session is lost, so are all its locks.
//
// Acquire for the key of a multiplexed lock whose Context ctx derives from nests
// with this option, and returns ErrDeadlock without it. Who has to wait does so on
// a session of his own, or, where lockdb_max_sessions allows none, asks again and
// again on the shared one.
//
// On PostgreSQL the locks of a process take at most three quarters of the server's
// lock table; beyond that Acquire returns ErrUnsupported, which names
// max_locks_per_transaction.
func Multiplexed() Option {
	return func(r *conn.Request) error {
		r.Shared = true
		return nil
	}
}

func request(key string, opts []Option) (conn.Request, error) {
	if len(opts) == 0 {
		return conn.Request{Key: key}, nil // without the allocation that opt(&req) makes
	}
	req := conn.Request{Key: key}
	for _, opt := range opts {
		if err := opt(&req); err != nil {
			return req, err
		}
	}
	return req, req.Check()
}
