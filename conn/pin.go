package conn

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// Pinned is a server session that is bound to a context, for SQL text that takes
// and releases session locks itself. It is safe for concurrent use: its
// statements run one at a time. Whoever pinned it must Close it.
type Pinned struct{ lock *Lock }

// pinKey is what a pinned session is called in messages.
const pinKey = "pinned session"

// Pin takes a session. See package lockctx.
func (k *Keeper) Pin(ctx context.Context) (*Pinned, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault(pinKey, "the context ended before a session was asked for", err)
	}
	k.everLocked.Store(true)
	s, err := k.session(ctx, dialect.Name{}, nil, false)
	var starved *starved
	switch {
	case errors.As(err, &starved):
		return nil, fault(pinKey, starved.why, starved.err)
	case err != nil:
		return nil, fault(pinKey, "", err)
	}
	if err := k.supported(s); err != nil {
		k.put(s)
		return nil, err
	}
	l := &Lock{keeper: k, key: pinKey, bare: true, sess: s, since: time.Now()}
	l.aroundPin, _ = ctx.Value(k).(*Lock)
	l.opens(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.closing:
		k.spawn(s.close)
		return nil, fault(pinKey, "", ErrClosed)
	case !s.enter(l):
		return nil, fault(pinKey, "", errPeerClosed)
	}
	k.list(l)
	return &Pinned{l}, nil
}

// Context returns the pinned session's context, a child of Pin's: statements and
// transactions under it run on the session. It ends as a lock's context does.
func (p *Pinned) Context() context.Context { return p.lock.Context() }

// Conn returns the session as a *sql.Conn, as Lock.Conn does.
func (p *Pinned) Conn(ctx context.Context) (*sql.Conn, error) { return p.lock.Conn(ctx) }

// DB returns the session as a *sql.DB, for use with Context, as Lock.DB does.
func (p *Pinned) DB() *sql.DB { return p.lock.DB() }

// Err returns nil until the session is lost (ErrLost) or closed (ErrReleased).
func (p *Pinned) Err() error { return p.lock.Err() }

// Close rolls back what is open, releases the session locks that were left on
// the session, and ends its Context. Its errors are those of Lock.Close.
func (p *Pinned) Close() error { return p.lock.Close() }

// unpin is release for a lock that is none. The caller holds the session's io.
func (k *Keeper) unpin(l *Lock) error {
	s := l.sess
	k.mu.Lock()
	mine := k.unlist(l)
	k.mu.Unlock()
	if !mine { // lost meanwhile
		s.io.unlock()
		return l.Err()
	}
	s.leave(l)
	// Whatever the texts showed: a function may have taken a lock.
	shown := s.mustScrub()
	stop := s.bound(cleanupBound)
	dead, err := s.do(context.Background(), func(ctx context.Context) error { return k.dialect.ReleaseAll(ctx, &s.phys) })
	stop()
	if dead && err == nil {
		err = errPeerClosed
	}
	if err == nil {
		s.mu.Lock()
		s.scrub = scrub{}
		s.mu.Unlock()
		s.closeLate()
	}
	s.io.unlock()
	if err != nil {
		err = fault(l.key, "the session was closed, and its locks with it", ErrReleased, err)
		l.to(stateReleased, l.Err())
		s.lose(err)
		if !dead && !shown { // by a server that has no such function, as MariaDB before 10.5.2
			return nil
		}
		return err
	}
	l.to(stateReleased, l.Err())
	k.put(s)
	return nil
}
