package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"reflect"

	"github.com/lockdb/lockdb/internal/dialect"
)

// verdict is what came of a Commit.
type verdict struct {
	err   error
	sent  bool // COMMIT, alone or in one message with the fence
	fence bool // the error may be the fence's
	over  bool // the connection did not survive
	spent bool // it must not be used again: a transaction may be open
}

// commit commits the transaction that is open on p, if its leases are still its
// own; else it rolls back. Under io if p is a session's.
func (f *fence) commit(ctx context.Context, p *phys, inner driver.Tx) verdict {
	v := f.send(ctx, p, inner)
	f.committed.Store(v.sent && v.err == nil) // before end tells Close
	v.over = f.keeper.over(p, v.err)
	v.spent = v.over || v.err != nil && !f.keeper.undo(ctx, p, inner)
	return v
}

// send sends the fence and COMMIT.
func (f *fence) send(ctx context.Context, p *phys, inner driver.Tx) (v verdict) {
	// An aborted transaction commits nothing, and the driver has words for that.
	if f.readOnly || p.pg != nil && !p.pg.IsClosed() && p.pg.PgConn().TxStatus() == 'E' {
		return verdict{err: inner.Commit(), sent: true}
	}
	rows := make([]dialect.Lease, len(f.leases))
	for i, le := range f.leases {
		defer le.Committing()()
		rows[i] = le.Row()
	}
	m, err := f.keeper.leaseManager()
	var table dialect.Leases
	if err == nil {
		table, err = m.Table(ctx)
	}
	if err != nil {
		return verdict{err: err}
	}
	server := m.Server()
	if server.FenceCommits && p.commitsByText() {
		return verdict{err: table.FenceAndCommit(ctx, p, server, rows), sent: true, fence: true}
	}
	switch v = (verdict{err: table.Fence(ctx, p, server, rows), fence: true}); {
	case v.err != nil:
	case p.commitsByText():
		v = verdict{err: p.Exec(ctx, "COMMIT"), sent: true}
	default:
		v = verdict{err: inner.Commit(), sent: true}
	}
	return v
}

// commitsByText tells whether a COMMIT in a statement's text is all that Commit of
// the driver's Tx would do, and nobody waits to see that: pgx's and go-sql-driver's
// keep nothing beside the connection. That of lib/pq has a goroutine to end.
func (p *phys) commitsByText() bool {
	if p.dc != p.real {
		return false
	}
	if p.pg != nil {
		return true
	}
	t := reflect.TypeOf(p.real)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "github.com/go-sql-driver/mysql"
}

// undo makes sure that no transaction is open after a Commit that failed, and tells
// whether it could. MySQL leaves one open whose COMMIT it refuses, and MariaDB also
// one whose ROLLBACK a KILL QUERY met: the next BEGIN would commit it, whatever has
// become of the leases. PostgreSQL's state shows.
func (k *Keeper) undo(ctx context.Context, p *phys, inner driver.Tx) bool {
	idle := func() bool { return p.pg != nil && !p.pg.IsClosed() && p.pg.PgConn().TxStatus() == 'I' }
	if idle() {
		return true
	}
	err := inner.Rollback() // it does nothing after a Commit of its own, and says so
	for try := 0; ; try++ {
		switch {
		case idle(), err == nil && p.pg == nil:
			return true
		case try == 5, p.pg != nil && p.pg.IsClosed(), try > 0 && k.over(p, err):
			return false
		}
		err = p.Exec(ctx, "ROLLBACK")
	}
}

// over tells whether the connection did not survive what err came of.
func (k *Keeper) over(p *phys, err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, driver.ErrBadConn), k.dialect.Classify(err) == dialect.ClassGone:
		return true
	case p.pg != nil:
		return p.pg.IsClosed()
	case p.validator != nil:
		return !p.validator.IsValid()
	}
	return false
}
