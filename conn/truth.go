package conn

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
	"github.com/lockdb/lockdb/internal/monotime"
)

// truth is what the keeper learns once of each server, beyond what every
// session asks at its opening.
type truth struct {
	turn ioMutex // one learns, the others wait; it guards what follows

	known       bool
	next        time.Duration // when to try again to learn it, by monotime
	unsupported string        // why session locks do not exclude; "" if they do
	pooler      bool          // because of a pooler, through which InTx is still safe
	owner       dialect.Owner // what the server says of who holds a lock
	fusion      dialect.Fusion
}

// learn completes what a session that is being opened knows of its server. Only
// the first session of a server asks; what it could not find out is left out,
// and asked again by one that comes later. An error is the connection's.
func (k *Keeper) learn(ctx context.Context, p *phys, s *dialect.Server) error {
	trusted := s.Pooler && k.opts.Pooler == PoolerSession
	if s.Unsupported != "" && !trusted {
		return nil
	}
	v, _ := k.truths.LoadOrStore(s.Identity, &truth{turn: newIOMutex()})
	t := v.(*truth)
	if err := t.turn.lock(ctx); err != nil {
		return err
	}
	defer t.turn.unlock()
	if !t.known && monotime.Now() >= t.next {
		if err := k.examine(ctx, p, *s, t); err != nil {
			return err
		}
		if t.unsupported != "" && trusted {
			k.write(slog.LevelWarn, "lockdb: session locks do not exclude here, but lockdb_pooler=session says that they do", slog.String("found", t.unsupported))
		}
	}
	s.Owner, s.Fusion = t.owner, t.fusion
	if t.unsupported != "" {
		s.Unsupported, s.Pooler = t.unsupported, s.Pooler || t.pooler
	}
	return nil
}

// examine asks the server what it is, and then puts it to the test.
func (k *Keeper) examine(ctx context.Context, p *phys, s dialect.Server, t *truth) (err error) {
	if t.unsupported, err = k.dialect.Cluster(ctx, p); err != nil {
		return err
	}
	if t.unsupported != "" {
		t.known = true
		return nil
	}
	err = k.selfTest(ctx, p, s, t)
	t.next = monotime.Now() + testAgain
	return err
}

// supported tells whether session locks exclude on the session's server.
func (k *Keeper) supported(s *session) error {
	if s.server.Unsupported == "" || s.server.Pooler && k.opts.Pooler == PoolerSession {
		return nil
	}
	return fault("", "session locks do not exclude here: "+s.server.Unsupported, ErrUnsupported)
}

// takesMore tells whether the session can hold more than one lock.
func (s *session) takesMore() error {
	if !s.server.OneLock {
		return nil
	}
	return fault("", "on this server (version "+s.server.Version+") a second GET_LOCK on a session drops the first: "+
		"take one lock at a time, or upgrade to MySQL 5.7.5 or MariaDB 10.0.2", ErrUnsupported)
}

// distrust takes the idle sessions of a server away that is no longer what it
// was when they were opened, so that the next one learns what it is now. The
// caller closes them.
func (k *Keeper) distrust(server dialect.Server) (stale []*session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.idle = slices.DeleteFunc(k.idle, func(s *session) bool {
		if s.server.Identity != server.Identity {
			return false
		}
		stale = append(stale, s)
		return true
	})
	return stale
}
