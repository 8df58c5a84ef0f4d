package conn

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/lockdb/lockdb/internal/dialect"
)

// ownTx is a transaction on the conn's own session. It is wrapped so that its
// statements stay where it is, whatever context they bear. One is embedded in
// each conn, so that wrapping costs nothing: only on a *sql.Conn can a program
// begin another before it has ended the first.
type ownTx struct {
	c     *conn
	ctx   context.Context // BeginTx's
	inner driver.Tx
	fence *fence // nil if no lease is around it
	dead  error  // why it ended before its owner ended it
}

var _ driver.Tx = (*ownTx)(nil)

// beginOwn begins a transaction on the conn's own session.
func (c *conn) beginOwn(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if c.keeper.everLeased.Load() {
		f, err := c.keeper.fenceFor(ctx, c.bound, c.handle, opts)
		if err != nil {
			return nil, err
		}
		if f != nil {
			return c.beginFenced(ctx, opts, f)
		}
	}
	inner, err := c.own.begin(ctx, opts)
	if err != nil {
		return nil, err
	}
	return c.begun(ctx, inner, nil), nil
}

// begun wraps a transaction that has begun on the conn's own session.
func (c *conn) begun(ctx context.Context, inner driver.Tx, f *fence) *ownTx {
	t := &c.ownTx
	if t.inner != nil {
		t = &ownTx{}
	}
	*t = ownTx{c: c, ctx: ctx, inner: inner, fence: f}
	c.ownTxs++
	return t
}

func (t *ownTx) Commit() error {
	inner, f, c, dead := t.inner, t.fence, t.c, t.dead
	c.ownTxs--
	*t = ownTx{}
	switch {
	case dead != nil:
		return dead
	case f != nil:
		return c.commitFenced(f, inner)
	}
	return inner.Commit()
}

// Rollback also does for an inner connection that is no Validator or no
// SessionResetter what database/sql does for such a one: when the context of a
// transaction ends, the connection is not used again.
func (t *ownTx) Rollback() error {
	inner, c, f, dead := t.inner, t.c, t.fence, t.dead
	spent := t.ctx.Err() != nil && (c.own.validator == nil || c.own.resetter == nil) &&
		(f == nil || c.own.pg == nil) // under leases pgx has a context that has not ended
	c.ownTxs--
	*t = ownTx{}
	if dead != nil {
		return nil
	}
	err := inner.Rollback()
	if f != nil {
		c.spent = c.spent || err != nil // perhaps it is still open
		f.end()
	}
	if spent {
		c.spent = true
		if err != nil {
			err = spentErr{err}
		}
	}
	return err
}

// spentErr is the error of a rollback that costs the connection. To its text it
// adds that database/sql takes it for driver.ErrBadConn.
type spentErr struct{ error }

func (e spentErr) Is(target error) bool { return target == driver.ErrBadConn }
func (e spentErr) Unwrap() error        { return e.error }

// lockTx is a transaction on a lock's session, begun under the lock's context.
type lockTx struct {
	c     *conn
	ctx   context.Context // BeginTx's
	lock  *Lock
	inner driver.Tx
	gate  gate   // one statement at a time inside the transaction
	dead  error  // guarded by the session's io: why it ended before its owner ended it
	last  bool   // guarded by the session's io: the lock's release may travel with COMMIT
	fence *fence // nil if no lease is around it

	manual bool // never changes: it goes on while autocommit is off
}

var _ driver.Tx = (*lockTx)(nil)

func (sc scope) begin(ctx context.Context, c *conn, opts driver.TxOptions) (driver.Tx, error) {
	t := &lockTx{c: c, ctx: ctx, lock: sc.lock}
	if sc.lock.keeper.everLeased.Load() {
		bound := sc.lock
		if c.bound != nil {
			bound = c.bound
		}
		var err error
		if t.fence, err = sc.lock.keeper.fenceFor(ctx, bound, nil, opts); err != nil {
			return nil, err
		}
	}
	err := sc.run(ctx, "a transaction", true, func(ctx context.Context, s *session) error {
		inner, err := s.takeBegun(opts), error(nil)
		if inner == nil {
			inner, err = s.phys.begin(ctx, opts)
			if c, ok := ctx.(*call); ok && err == nil {
				if err = c.outlived(); err != nil { // pgx would end the connection with the transaction
					s.noTx(context.Background(), err)
				}
			}
		}
		if err == nil {
			t.inner, t.manual = inner, s.manual
			s.tx = t
			sc.lock.top().setTx(t)
		}
		return err
	})
	if err != nil {
		t.fence.end()
		return nil, neverBad(ctx, err)
	}
	c.tx = t
	return t, nil
}

// Commit commits only while the lock is held: it runs on the lock's session,
// which died, and the transaction with it, if the lock was lost. Nor does it
// commit once the context has ended: database/sql asks its own, which hears of
// the end only after a cancel of the parent has returned.
func (t *lockTx) Commit() error {
	if err := t.ctx.Err(); err != nil {
		_ = t.Rollback()
		return err
	}
	if t.fence != nil {
		return t.commitFenced()
	}
	sent := false
	err := t.end(func(ctx context.Context, s *session) error {
		sent = true
		if t.closesWithCommit(s) {
			released, err := s.commitAndUnlock(ctx, t.lock.name)
			s.unlocked = released
			return err
		}
		t.endXact()
		err := t.inner.Commit()
		s.noTx(ctx, err)
		return err
	})
	switch {
	case errors.Is(err, dialect.ErrCommitUnknown):
		return fault(t.lock.key, "look at the data to learn whether it took effect", ErrOutcomeUnknown, err)
	case sent && errors.Is(err, ErrLost):
		return fault(t.lock.key, "the connection ended while COMMIT was under way: look at the data to learn whether it took effect", ErrOutcomeUnknown, err)
	}
	return err
}

func (t *lockTx) Rollback() error {
	return t.end(func(ctx context.Context, s *session) error {
		t.endXact()
		err := t.inner.Rollback()
		if s.noTx(ctx, err) {
			return nil
		}
		return err
	})
}

// noTx makes sure that no transaction is open after the statement that was to
// end it gave err, and that autocommit is on, and tells whether the transaction
// was rolled back only now. A session that cannot be had so is closed. Under io.
func (s *session) noTx(ctx context.Context, err error) (now bool) {
	now, ended := s.rollBack(ctx, err)
	if ended {
		s.restoreAutocommit(ctx)
	}
	return now
}

// rollBack is noTx as far as the transaction goes. MySQL leaves a
// transaction open whose COMMIT it refuses, and MariaDB also one whose ROLLBACK
// a KILL QUERY met: the next holder's BEGIN would commit it. PostgreSQL's state
// shows.
func (s *session) rollBack(ctx context.Context, err error) (now, ended bool) {
	for try := 0; ; try++ {
		open := err != nil
		if s.pg != nil {
			open = !s.pg.IsClosed() && s.pg.PgConn().TxStatus() != 'I'
		}
		switch {
		case !open:
			return try > 0, true
		case s.dead():
			return false, false
		case try == 5:
			s.cut()
			return false, false
		}
		err = s.Exec(ctx, "ROLLBACK")
	}
}

var errTxDone = errors.New("lockdb: the transaction has ended")

// end runs the transaction's last call and gives the session free.
func (t *lockTx) end(last func(context.Context, *session) error) error {
	defer t.fence.end()
	if t.c.raw != nil { // a Raw access has io until then
		t.c.dropRaw()
	}
	t.c.tx = nil
	ctx := context.Background()
	err := scope{lock: t.lock, tx: t}.call(ctx, func(ctx context.Context, s *session) error {
		s.tx = nil
		if s.rows != nil {
			s.rows.shut(errTxDone)
		}
		// Not t.ctx itself: a release that travels with COMMIT has ended the lock's.
		defer s.boundAfter(t.ctx, t.lock.keeper.answerBound())()
		return last(ctx, s)
	})
	top := t.lock.top()
	top.setTx(nil)
	top.gate.leave()
	return neverBad(ctx, err)
}

// tidy tells whether the session has nothing but one lock: endWork and endNested
// would find nothing to do. Under io.
func (s *session) tidy() bool {
	if s.rows != nil || s.tx != nil || s.begun != nil || s.manual || s.pg != nil && s.inTx() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.locks) <= 1 && s.scrub == scrub{}
}

// endWork closes what was begun under l and is open on the session, and tells
// whether that was a transaction. The caller holds io, and looks afterwards
// whether the session is dead.
func (s *session) endWork(l *Lock, reason error) (openTx bool) {
	if s.rows != nil && (s.rows.sc.lock.within(l) || s.tx != nil && s.tx.lock.within(l)) {
		s.rows.shut(reason)
	}
	if t := s.tx; t != nil && t.lock.within(l) {
		openTx = true
		t.gate.close(reason)
		s.tx, t.dead = nil, reason
		_, _ = s.do(context.Background(), func(ctx context.Context) error {
			err := t.inner.Rollback()
			s.noTx(ctx, err)
			return err
		})
		t.fence.end()
	}
	if l.outer != nil {
		return openTx
	}
	s.dropBegun()
	s.mu.Lock()
	leftover := s.scrub.tx || s.scrub.raw
	s.scrub.tx, s.scrub.raw = false, false
	s.mu.Unlock()
	if s.pg != nil && !s.pg.IsClosed() {
		leftover = s.pg.PgConn().TxStatus() != 'I' // it knows
		openTx = openTx || leftover
	}
	if leftover {
		_, _ = s.do(context.Background(), func(ctx context.Context) error {
			err := s.Exec(ctx, "ROLLBACK")
			s.noTx(ctx, err)
			return err
		})
	}
	return openTx
}
