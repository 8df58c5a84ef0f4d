package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/lockdb/lockdb/internal/dialect"
)

// scope is where a statement runs on a lock's session: under the lock itself,
// or in a transaction begun under it.
type scope struct {
	lock *Lock
	tx   *lockTx // nil outside a transaction
	c    *conn   // through which it comes; nil if that is not database/sql's doing
}

func (sc scope) gate() *gate {
	if sc.tx != nil {
		return &sc.tx.gate
	}
	return &sc.lock.top().gate
}

// check tells, under io, whether statements may run.
func (sc scope) check() error {
	if sc.tx != nil && sc.tx.dead != nil {
		return sc.tx.dead
	}
	return sc.lock.check()
}

// run makes one call on the lock's session, when its turn has come. what says
// it in a word for ErrBusy's message. If fn returns nil and keep is true, what
// it began stays at the gate until someone calls leave.
func (sc scope) run(ctx context.Context, what string, keep bool, fn func(context.Context, *session) error) error {
	l, g := sc.lock, sc.gate()
	patience := l.keeper.opts.BusyTimeout
	occupant, err := g.enter(ctx, what, sc.c, patience)
	switch {
	case errors.Is(err, errInVain):
		return fault(l.key, occupant+", on the same *sql.Tx or *sql.Conn, and cannot be closed while this waits: close it first", ErrBusy)
	case errors.Is(err, ErrBusy):
		return fault(l.key, "waited "+patience.String()+" for: "+occupant+
			" (one statement at a time runs under a lock: close it first, or finish the transaction)", ErrBusy)
	case err != nil:
		return err
	}
	stays := false
	defer func() {
		if !stays {
			g.leave()
		}
	}()
	err = sc.call(ctx, fn)
	if stays = err == nil && keep; stays {
		g.occupy()
	}
	return err
}

// call makes one call on the lock's session without asking the gate: for what
// is already inside.
func (sc scope) call(ctx context.Context, fn func(context.Context, *session) error) error {
	s := sc.lock.sess
	if err := sc.lock.check(); err != nil {
		return err // at once: the session may be in other hands, for long
	}
	if err := s.io.lock(ctx); err != nil {
		return err
	}
	err := sc.check()
	if err == nil {
		err = ctx.Err() // a context that is dead from the start has pgx's BeginTx close the connection
	}
	if err != nil {
		s.io.unlock()
		return err
	}
	if s.rows == nil {
		s.closeLate()
	}
	returned := false
	defer s.unwind(&returned)
	dead, err := s.do(ctx, func(ctx context.Context) error { return fn(ctx, s) })
	returned = true
	if dead { // under io, so that the socket watch does not come first, who knows less
		s.lose(s.whyClosed(ctx.Err(), err))
	}
	s.io.unlock()
	if dead {
		return sc.lock.lostIn(ctx.Err(), err)
	}
	return err
}

// whyClosed says why a connection did not survive a statement whose context
// ended, or did not (nil). err is what came of the statement.
func (s *session) whyClosed(ended, err error) error {
	switch {
	case ended != nil:
		return fmt.Errorf("a statement's context ended while it ran, which closes the connection: %w", ended)
	case err != nil && s.keeper.dialect.Classify(err) != dialect.ClassOther:
		return fmt.Errorf("%w: %w", errPeerClosed, err)
	}
	return errPeerClosed
}

// lostIn is the error of a statement that did not survive: ErrLost, and never
// driver.ErrBadConn, on which database/sql would run it again elsewhere. ended
// is the error of its context, nil if that has not ended.
func (l *Lock) lostIn(ended, err error) error {
	if errors.Is(err, driver.ErrBadConn) {
		err = errPeerClosed
	}
	if errors.Is(err, ended) {
		ended = nil // no need to say it twice
	}
	return fault(l.key, "the session ended while a statement ran", ErrLost, err, ended)
}

// neverBad is for the error of a statement on a living session: database/sql
// would run it again on another connection if it were ErrBadConn.
func neverBad(ctx context.Context, err error) error {
	switch {
	case !errors.Is(err, driver.ErrBadConn):
		return err
	case ctx.Err() != nil: // pgx says ErrBadConn of a context that was dead from the start
		return ctx.Err()
	}
	return errors.New("lockdb: the driver refused the statement before it was sent")
}

func (sc scope) query(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := sc.guard(query, args); err != nil {
		return nil, err
	}
	return sc.rows(ctx, func(ctx context.Context, s *session) (driver.Rows, error) {
		return s.query(ctx, query, args)
	})
}

// rows runs what returns a result set, which stays at the gate until closed.
func (sc scope) rows(ctx context.Context, fn func(context.Context, *session) (driver.Rows, error)) (driver.Rows, error) {
	var r *rows
	err := sc.run(ctx, "a result set", true, func(ctx context.Context, s *session) error {
		inner, err := fn(ctx, s)
		if err == nil {
			r = newRows(sc, s, inner)
			r.goOn(ctx)
			s.rows = r
		}
		return err
	})
	if err != nil {
		return nil, neverBad(ctx, err)
	}
	return wrapRows(r), nil
}

func (sc scope) exec(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	if err := sc.guard(query, args); err != nil {
		return nil, err
	}
	err = sc.run(ctx, "a statement", false, func(ctx context.Context, s *session) error {
		res, err = s.exec(ctx, query, args)
		return err
	})
	return res, neverBad(ctx, err)
}

// guard refuses a statement that would drop the lock, and notes what it may
// leave behind on the session.
func (sc scope) guard(query string, args []driver.NamedValue) error {
	l := sc.lock
	v := l.keeper.dialect.Guard(query, args, l.sess.names())
	if v.Refuse != "" {
		return fault(l.key, v.Refuse+" under the lock's context would drop a lock that lockdb holds on its session: call Close on the lock instead", ErrUnsupported)
	}
	if v.Autocommit && v.Rebinds && sc.tx != nil && sc.tx.manual {
		return fault(l.key, "SET autocommit within InTx would commit half of it: leave it out", ErrUnsupported)
	}
	if v.Locks {
		if err := l.sess.takesMore(); err != nil {
			return err
		}
	}
	if v.Rebinds {
		l.sess.unshare()
	}
	s := l.sess
	if v.LocksTables {
		s.lockedTables.Store(true)
	}
	if v.Autocommit {
		s.noAutocommit.Store(true)
	}
	if v.MayBegin = v.MayBegin || s.noAutocommit.Load(); v.MayLock || v.MayBegin {
		s.mu.Lock()
		s.scrub.locks = s.scrub.locks || v.MayLock
		s.scrub.tx = s.scrub.tx || v.MayBegin
		s.mu.Unlock()
	}
	return nil
}
