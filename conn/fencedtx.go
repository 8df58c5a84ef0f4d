package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
)

// beginFenced is beginOwn under leases. The context of BEGIN ends with the user's
// only while that runs: pgx would keep it for Commit and Rollback.
func (c *conn) beginFenced(ctx context.Context, opts driver.TxOptions, f *fence) (driver.Tx, error) {
	began := false
	defer func() {
		if !began {
			f.end()
		}
	}()
	call := newCall(ctx, true)
	defer call.finish()
	inner, err := c.own.begin(call, opts)
	if err != nil {
		return nil, err
	}
	began = true
	return c.begun(ctx, inner, f), nil
}

// leasedTx tells whether the transaction that is open on the conn's own session, or
// one that is to begin there under ctx, is under a lease: MySQL's BEGIN commits what
// is open, and PostgreSQL's first COMMIT is for both.
func (c *conn) leasedTx(ctx context.Context) (key string, ok bool) {
	l, ok := ctx.Value(leaseOf{c.keeper}).(*Lock)
	switch {
	case ok:
	case c.ownTx.fence != nil:
		l = c.ownTx.fence.locks[0]
	case c.bound != nil && c.bound.isLease:
		l = c.bound
	default:
		return "", false
	}
	return l.key, true
}

// commitFenced is ownTx.Commit under leases.
func (c *conn) commitFenced(f *fence, inner driver.Tx) error {
	defer f.end()
	if err := f.check(); err != nil {
		if rerr := inner.Rollback(); rerr != nil {
			c.spent = true // perhaps it is still open
		}
		return err
	}
	ctx, stop := f.patience()
	defer stop()
	v := f.commit(ctx, &c.own, inner)
	c.spent = c.spent || v.spent
	return f.explain(v)
}

// rollBackBound has a transaction end that was begun on the conn which Lock.Conn
// gave, under a context that is none of the lock's: database/sql does not roll it
// back. It goes through the *sql.Conn, which lets one at a time at the conn; nobody
// waits for that beyond the bound of Close, since the user may have it for long.
func (f *fence) rollBackBound() {
	if f.handle == nil || f.ctx.Err() != nil {
		return
	}
	go func() {
		_ = f.handle.Raw(func(dc any) error {
			c, err := facade(dc)
			if err != nil || f.isEnded() || c.ownTx.fence != f {
				return err
			}
			t := &c.ownTx
			if t.dead = f.check(); t.dead == nil {
				t.dead = fmt.Errorf("%w: rolled back", errTxDone)
			}
			if err := t.inner.Rollback(); err != nil { // a result set is open, perhaps
				c.spent = true
				_ = c.own.dc.Close()
			}
			f.end()
			return nil
		})
	}()
}

// commitFenced is Commit of a transaction under a session lock and leases.
func (t *lockTx) commitFenced() error {
	f := t.fence
	if err := f.check(); err != nil {
		_ = t.Rollback()
		return err
	}
	var v verdict
	err := t.end(func(ctx context.Context, s *session) error {
		t.endXact()
		v = f.commit(ctx, &s.phys, t.inner)
		s.noTx(ctx, v.err)
		return v.err
	})
	switch {
	case v.err != nil && !errors.Is(err, ErrLost):
		return f.explain(v)
	case err != nil && v.sent: // the session ended
		return fault(t.lock.key, "the connection ended while COMMIT was under way: look at the data to learn whether it took effect", ErrOutcomeUnknown, err)
	}
	return err
}
