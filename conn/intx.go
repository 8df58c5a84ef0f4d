package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// InTx acquires the lock, begins a transaction under it, runs fn, commits and
// releases. See package lockctx.
func (k *Keeper) InTx(ctx context.Context, req Request, txOpts *sql.TxOptions, fn func(context.Context, *sql.Tx) error) (err error) {
	if req.Shared {
		return fault(req.Key, "the transaction would not end with a multiplexed lock, whose session is not its own: leave Multiplexed out", ErrUnsupported)
	}
	req.begin = &driver.TxOptions{}
	if txOpts != nil {
		req.begin = &driver.TxOptions{Isolation: driver.IsolationLevel(txOpts.Isolation), ReadOnly: txOpts.ReadOnly}
	}
	l, err := k.Acquire(ctx, req)
	if err != nil {
		return err
	}
	committed := false
	defer func() {
		cerr := l.Close()
		switch {
		case committed:
			cerr = nil // the lock was held when the commit was acknowledged, and an error would say that there was none
		case err != nil && errors.Is(cerr, ErrReleased):
			cerr = nil // what Close found open is this transaction, which is being rolled back
		}
		err = joinErrs(err, cerr)
	}()
	tx, err := k.sessionDB().BeginTx(l.Context(), txOpts)
	if err != nil {
		return fmt.Errorf("lockdb: begin under the lock %q: %w", req.Key, err)
	}
	defer func() {
		if !committed {
			_ = tx.Rollback()
		}
	}()
	if err := fn(l.Context(), tx); err != nil {
		return err
	}
	l.setLast()
	if err := tx.Commit(); err != nil {
		if errors.Is(err, sql.ErrTxDone) {
			why, lost := l.Context().Err(), l.Err() // why database/sql rolled back first
			if errors.Is(why, lost) {
				lost = nil // no need to say it twice
			}
			err = errors.Join(err, lost, why)
		}
		return err
	}
	committed = true
	return nil
}

// joinErrs leaves out what the first error already says.
func joinErrs(err, cerr error) error {
	switch {
	case cerr == nil:
		return err
	case err == nil:
		return cerr
	case errors.Is(cerr, ErrLost) && errors.Is(err, ErrLost):
		return err
	}
	return errors.Join(err, cerr)
}

// Do acquires the lock, runs fn under its context and releases. See package
// lockctx.
func (k *Keeper) Do(ctx context.Context, req Request, fn func(context.Context) error) (err error) {
	l, err := k.Acquire(ctx, req)
	if err != nil {
		return err
	}
	defer func() { err = joinErrs(err, l.Close()) }()
	return fn(l.Context())
}

// begun is a transaction that was begun on a session together with the grant of
// its lock, and waits for the BeginTx of the one it was begun for.
type begun struct {
	opts  driver.TxOptions
	inner driver.Tx
	// xact: the lock is the transaction's own (pg_advisory_xact_lock), and
	// ends with it.
	xact bool
}

// takeBegun is the transaction that awaits its BeginTx; one that was begun
// otherwise than opts say is rolled back. Under io.
func (s *session) takeBegun(opts driver.TxOptions) driver.Tx {
	b := s.begun
	if b == nil || b.inner == nil {
		return nil
	}
	inner := b.inner
	b.inner = nil
	if b.opts != opts {
		s.noTx(context.Background(), inner.Rollback())
		return nil
	}
	return inner
}

// dropBegun rolls back a transaction that nobody came for. The caller looks
// afterwards whether the session is dead. Under io.
func (s *session) dropBegun() {
	b := s.begun
	s.begun = nil
	if b != nil && b.inner != nil {
		_, _ = s.do(context.Background(), func(ctx context.Context) error {
			err := b.inner.Rollback()
			s.noTx(ctx, err)
			return err
		})
	}
}

// tryAndBegin tries for the lock and begins a transaction in one round trip. asked
// is false if that cannot be had, and the server was asked for nothing. Under io.
func (s *session) tryAndBegin(ctx context.Context, n dialect.Name, opts driver.TxOptions) (granted, asked bool, err error) {
	if !s.pipes() {
		return s.mysqlTryAndBegin(ctx, n, opts)
	}
	begin := pgBegin(opts)
	if begin == "" {
		return false, false, nil
	}
	granted, err = s.pgTryAndBegin(ctx, n, opts, begin)
	return granted, true, err
}

// commitAndUnlock commits and releases, where closesWithCommit has it so. err is
// COMMIT's. Under io.
func (s *session) commitAndUnlock(ctx context.Context, n dialect.Name) (released bool, err error) {
	if s.pipes() {
		return s.pgCommitAndUnlock(ctx, n)
	}
	return s.mysqlCommitAndUnlock(ctx, n)
}

// setLast says that the next COMMIT is the last thing done under the lock, so
// that its release may travel with it.
func (l *Lock) setLast() {
	s := l.sess
	if l.isLease || l.outer != nil || s.io.lock(&l.ctx) != nil {
		return
	}
	if s.tx != nil && s.tx.lock == l {
		s.tx.last = true
	}
	s.io.unlock()
}

// closesWithCommit tells whether the release of the lock is to travel with this
// COMMIT, and then ends the lock's context: nothing may run under it once the
// server has let the next one in. Under io.
func (t *lockTx) closesWithCommit(s *session) bool {
	l := t.lock
	if !t.last || !s.pipes() && !s.fusesCommit() || l.xact || !l.keeper.mayRelease(l) {
		return false
	}
	return l.closeEarly()
}

// closeEarly ends the lock's context because the end of a transaction is about
// to release the lock; Close finds that done.
func (l *Lock) closeEarly() bool {
	gone := fault(l.key, "", ErrReleased)
	if !l.beginClosing(gone) {
		return false
	}
	l.closeGates(gone)
	l.ctx.endWith(gone)
	return true
}

// mayRelease tells whether the server is to be told of the release: not if
// someone here waits, to whom the lock is handed on, nor if there is more to
// release than this lock.
func (k *Keeper) mayRelease(l *Lock) bool {
	if l.sess.mustScrub() || len(l.sess.names()) > 1 {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.rooms[l.name]
	return r == nil || r.first == nil || l.tenure.over(time.Now())
}
