package conn

import (
	"context"
	"database/sql/driver"

	"github.com/lockdb/lockdb/internal/dialect"
)

// Behind a pooler in transaction mode a session lock excludes nobody, but a
// transaction stays on one backend. InTx there takes PostgreSQL's
// transaction-level lock as the transaction's first statement, and the end of
// the transaction releases it.

// pooled tells whether that is how it has to be done.
func (k *Keeper) pooled(s *session) bool {
	return s.server.Pooler && k.opts.Pooler == PoolerRefuse
}

// xactLock begins a transaction and takes the lock in it; refused, it rolls
// back. Under io.
func (s *session) xactLock(ctx context.Context, n dialect.Name, opts driver.TxOptions, wait bool) (granted bool, err error) {
	inner, err := s.phys.begin(ctx, opts)
	if err != nil {
		return false, err
	}
	defer func() {
		if !granted && !s.dead() {
			_ = inner.Rollback()
		}
	}()
	row, err := s.QuerySimple(ctx, dialect.PostgresIsolation)
	if err != nil {
		return false, err
	}
	if level := row[0].(string); level != "read committed" && level != "read uncommitted" {
		return false, fault("", "through a pooler in transaction mode InTx takes the lock inside the transaction, and under "+level+
			" its snapshot would be older than the grant, and show stale data: use sql.LevelReadCommitted, or connect to the server directly", ErrUnsupported)
	}
	if wait {
		if err := s.Exec(ctx, dialect.PostgresWaitXact(n, slice)); err != nil {
			if dialect.PostgresTimedOut(err) {
				err = nil
			}
			return false, err
		}
	} else {
		row, err := s.QuerySimple(ctx, dialect.PostgresTryXact(n))
		if err != nil || row == nil || row[0] != true && row[0] != "t" {
			return false, err
		}
	}
	s.begun = &begun{opts: opts, inner: inner, xact: true}
	return true, nil
}

// xactFor is how the first in the queue wants his transaction begun, if that is
// how he is to be served on s; else nil.
func (k *Keeper) xactFor(r *room, s *session) *driver.TxOptions {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.first == nil || !k.pooled(s) {
		return nil
	}
	return r.first.begin
}

// dropBegun rolls back a transaction that nobody wants any more.
func (k *Keeper) dropBegun(s *session) {
	_ = s.io.lock(context.Background())
	stop := s.bound(cleanupBound)
	s.dropBegun()
	stop()
	unfit := s.dead() || s.manual
	s.io.unlock()
	if unfit {
		s.lose(errPeerClosed)
	}
}

// endXact ends the context of a lock that ends with this transaction. Under io.
func (t *lockTx) endXact() {
	if t.lock.xact {
		t.lock.closeEarly()
	}
}
