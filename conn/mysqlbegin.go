package conn

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/lockdb/lockdb/internal/dialect"
)

// On MySQL and MariaDB one statement takes a lock and begins a transaction, where
// the self-test found that the server understands it (dialect.Fusion). MariaDB's
// COMMIT and the release are one statement, too. On MySQL the transaction is one
// of autocommit=0, of which nothing must stay on the session: whatever ends it
// switches autocommit on again before anyone else has the session, or closes it.

// fuses tells whether that can be had: nobody waits to see BEGIN and COMMIT,
// autocommit is lockdb's to switch, and if all else fails the socket can be closed.
func (s *session) fuses() bool {
	return s.server.Fusion != dialect.FusionNone && s.sock != nil && !s.noAutocommit.Load() && !s.lockedTables.Load() && s.commitsByText()
}

// mysqlTryAndBegin tries for the lock and begins a transaction. asked is false if
// the session cannot, and the server was asked for nothing. Under io.
func (s *session) mysqlTryAndBegin(ctx context.Context, n dialect.Name, opts driver.TxOptions) (granted, asked bool, err error) {
	if !s.fuses() {
		return false, false, nil
	}
	f := s.server.Fusion
	begin, ok := f.Begin(opts)
	if !ok {
		return false, false, nil
	}
	granted, err = f.TryAndBegin(ctx, &s.phys, n, begin)
	if granted {
		s.manual = f == dialect.FusionAutocommit
		s.begun = &begun{opts: opts, inner: mysqlTx{s}}
	}
	return granted, true, err
}

// fusesCommit tells whether the release can follow COMMIT at once, or with it. It
// does not if a statement may have begun a transaction of its own. Under io.
func (s *session) fusesCommit() bool {
	s.mu.Lock()
	left := s.scrub.tx || s.scrub.raw
	s.mu.Unlock()
	return !left && (s.manual || s.server.Fusion == dialect.FusionCompound && s.fuses())
}

// mysqlCommitAndUnlock commits and releases. err is COMMIT's: without one the
// transaction is committed, whatever became of the release. Under io.
func (s *session) mysqlCommitAndUnlock(ctx context.Context, n dialect.Name) (released bool, err error) {
	f := s.server.Fusion
	if s.manual {
		if err := s.Exec(ctx, "COMMIT"); err != nil {
			s.noTx(ctx, err)
			return false, err
		}
		defer s.bound(cleanupBound)()
		released = f.ReleaseAndAutocommit(ctx, &s.phys, n) == nil
		s.manual = !released
		s.noTx(ctx, nil)
		return released, nil
	}
	err = f.CommitAndRelease(ctx, &s.phys, n)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, dialect.ErrNotHeld):
		return false, nil
	case errors.Is(err, dialect.ErrCommitUnknown):
		s.lose(err)
		return false, err
	}
	s.noTx(ctx, err)
	return false, err
}

// restoreAutocommit switches autocommit on again. Nothing may be uncommitted, or
// that would be committed by it. A session of which it cannot be had is closed.
// Under io.
func (s *session) restoreAutocommit(ctx context.Context) {
	for try := 0; s.manual; try++ {
		switch {
		case s.dead():
			return
		case try == 5:
			s.cut()
			return
		}
		s.manual = s.Exec(ctx, dialect.MySQLAutocommit) != nil
	}
}

// mysqlTx is a transaction that was begun together with its lock's grant.
type mysqlTx struct{ s *session }

func (t mysqlTx) Commit() error   { return t.s.Exec(context.Background(), "COMMIT") }
func (t mysqlTx) Rollback() error { return t.s.Exec(context.Background(), "ROLLBACK") }
