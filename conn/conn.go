package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// conn is what database/sql pools. It owns one session of the inner driver,
// dialled by Connect or on first need, and lends its statements to a lock's
// session where their context says so. database/sql lets one goroutine at a
// time at it.
type conn struct {
	keeper *Keeper
	own    phys
	open   bool // own has been dialled

	tx     *lockTx   // a transaction on a lock's session: everything goes there until it ends
	bound  *Lock     // everything goes to this lock's session until the conn is returned
	leash  bool      // the conn of a lock's DB: dials a session of its own only under a lease
	handle *sql.Conn // through which it is bound
	raw    *scope    // Raw gave out this scope's session; see takeRaw

	ownTx   ownTx // embedded, so that Begin and Prepare allocate nothing of ours
	ownTxs  int   // open transactions on own
	ledger  rawLedger
	scanned scanned

	stmt     stmt
	spare    *stmt // closed, free for use again
	prepared *stmt // the first of those that are prepared on own
	spent    bool  // not to be used again once it is returned
}

// pgConn adds what only PostgreSQL has: the *pgx.Conn, for CopyFrom and the like.
type pgConn struct{ *conn }

var (
	_ driver.Conn               = (*conn)(nil)
	_ driver.ConnBeginTx        = (*conn)(nil)
	_ driver.ConnPrepareContext = (*conn)(nil)
	_ driver.ExecerContext      = (*conn)(nil)
	_ driver.QueryerContext     = (*conn)(nil)
	_ driver.Pinger             = (*conn)(nil)
	_ driver.SessionResetter    = (*conn)(nil)
	_ driver.Validator          = (*conn)(nil)
	_ driver.NamedValueChecker  = (*conn)(nil)
)

// route tells where a statement under ctx runs. onLock is false for the conn's
// own session, which it opens if there is none. A transaction stays where it
// began, whatever context its statements bear.
func (c *conn) route(ctx context.Context) (sc scope, onLock bool, err error) {
	if sc, onLock, err = c.target(ctx); onLock || err != nil {
		return sc, onLock, err
	}
	if c.leash && c.bound == nil && c.ownTxs == 0 && !c.keeper.leased(ctx) {
		return scope{}, false, fault("", "the DB of a lock runs statements only under the lock's context: pass lock.Context(), or one derived from it (a multiplexed lock has no session of its own, and so no DB)", ErrUnsupported)
	}
	if !c.open {
		return scope{}, false, c.dial(ctx)
	}
	return scope{}, false, nil
}

// passes tells whether a statement can only run on the conn's own session, whatever
// its context: route and target in brief, for the many of which this is so.
func (c *conn) passes() bool {
	return c.open && !c.leash && c.ownTxs == 0 && c.tx == nil && c.bound == nil && c.raw == nil && !c.keeper.everLocked.Load()
}

// target is route without opening anything.
func (c *conn) target(ctx context.Context) (sc scope, onLock bool, err error) {
	if c.raw != nil {
		c.dropRaw()
	}
	switch {
	case c.tx != nil:
		return scope{lock: c.tx.lock, tx: c.tx, c: c}, true, nil
	case c.ownTxs > 0:
		return scope{}, false, c.ownTx.dead
	case c.bound != nil && !c.bound.isLease:
		return scope{lock: c.bound, c: c}, true, nil
	case c.bound != nil:
		if err := c.bound.Err(); err != nil {
			return scope{}, false, err
		}
		if l, ok := ctx.Value(c.keeper).(*Lock); ok { // the conn is bound to no session
			return scope{lock: l, c: c}, true, nil
		}
		if l, ok := c.bound.ctx.Value(c.keeper).(*Lock); ok {
			return scope{lock: l, c: c}, true, nil
		}
	case c.keeper.everLocked.Load():
		if l, ok := ctx.Value(c.keeper).(*Lock); ok {
			return scope{lock: l, c: c}, true, nil
		}
	}
	return scope{}, false, nil
}

// leased tells whether ctx is under a lease.
func (k *Keeper) leased(ctx context.Context) bool {
	return k.everLeased.Load() && ctx.Value(leaseOf{k}) != nil
}

// dial opens the conn's own session. If it cannot, the pool is not to count the
// conn among its open connections.
func (c *conn) dial(ctx context.Context) error {
	if own, ok := c.keeper.takeSpare(ctx); ok {
		c.own, c.open, c.spent = own, true, false
		return nil
	}
	dc, err := c.keeper.poolConnector.Connect(ctx)
	if err != nil {
		c.spent = true
		return err
	}
	c.own, c.open, c.spent = newPhys(dc), true, false
	return nil
}

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	sees := c.seesRaw(query)
	if sees == 0 && c.passes() {
		rows, err := c.own.query(ctx, query, args)
		if err != nil {
			err = c.keeper.cutOff(ctx, err)
		}
		return rows, err
	}
	if sees != 0 {
		if err := c.beforeRaw(ctx, query, args, sees, true); err != nil {
			return nil, err
		}
	}
	sc, onLock, err := c.route(ctx)
	switch {
	case err != nil:
		return nil, err
	case onLock:
		return sc.query(ctx, query, args)
	case sees != 0:
		return c.rawQuery(query, args, func() (driver.Rows, error) { return c.own.query(ctx, query, args) })
	}
	rows, err := c.own.query(ctx, query, args)
	return rows, c.keeper.cutOff(ctx, err)
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	sees := c.seesRaw(query)
	if sees == 0 && c.passes() {
		res, err := c.own.exec(ctx, query, args)
		if err != nil {
			err = c.keeper.cutOff(ctx, err)
		}
		return res, err
	}
	if sees != 0 {
		if err := c.beforeRaw(ctx, query, args, sees, true); err != nil {
			return nil, err
		}
	}
	sc, onLock, err := c.route(ctx)
	switch {
	case err != nil:
		return nil, err
	case onLock:
		return sc.exec(ctx, query, args)
	case sees != 0:
		return c.rawExec(query, args,
			func() (driver.Result, error) { return c.own.exec(ctx, query, args) },
			func() (driver.Rows, error) { return c.own.query(ctx, query, args) })
	}
	res, err := c.own.exec(ctx, query, args)
	return res, c.keeper.cutOff(ctx, err)
}

// BeginTx implements driver.ConnBeginTx.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	sc, onLock, err := c.route(ctx)
	switch {
	case err != nil:
		return nil, err
	case c.tx != nil:
		return nil, fault(c.tx.lock.key, "a transaction is open on this *sql.Conn already: end it first", ErrBusy)
	case onLock:
		return sc.begin(ctx, c, opts)
	case c.ownTxs > 0:
		if l, ok := ctx.Value(c.keeper).(*Lock); ok {
			return nil, fault(l.key, "a transaction outside the lock is open on this *sql.Conn, so none can begin here under the lock: end it first, or use lock.Conn", ErrBusy)
		}
		if key, ok := c.leasedTx(ctx); ok {
			return nil, fault(key, "a transaction is open on this *sql.Conn already, and where one of two is under a lease its fence could not be kept: end it first, or use another Conn", ErrBusy)
		}
	}
	return c.beginOwn(ctx, opts)
}

// Begin implements driver.Conn.
func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// Ping implements driver.Pinger.
func (c *conn) Ping(ctx context.Context) error {
	sc, onLock, err := c.route(ctx)
	switch {
	case err != nil:
		return err
	case onLock:
		return neverBad(ctx, sc.run(ctx, "a ping", false, func(ctx context.Context, s *session) error { return s.ping(ctx) }))
	}
	return c.own.ping(ctx)
}

// ResetSession implements driver.SessionResetter, for the conn's own session.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.ledger.maybe() && !c.settle() { // another driver around this one hides IsValid
		return driver.ErrBadConn
	}
	if !c.open || c.own.resetter == nil {
		return nil
	}
	return c.own.resetter.ResetSession(ctx)
}

// IsValid implements driver.Validator. database/sql calls it when the conn
// comes back, which ends what bound it to a lock. pgx has no Validator: its
// answer is what its ResetSession would find at the next use.
func (c *conn) IsValid() bool {
	if c.raw != nil {
		c.dropRaw()
	}
	c.bound, c.handle = nil, nil
	switch {
	case c.tx != nil, c.spent:
		return false
	case !c.open:
		return true
	case c.own.pg != nil && (c.own.pg.IsClosed() || c.own.pg.PgConn().TxStatus() != 'I'),
		c.own.pg == nil && c.own.validator != nil && !c.own.validator.IsValid():
		return false
	}
	return !c.ledger.maybe() || c.settle()
}

// CheckNamedValue implements driver.NamedValueChecker. It gets no context; the
// drivers' checkers do not look at their connection, so any will do.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	p := &c.own
	if !c.open {
		if p = c.keeper.checker.Load(); p == nil {
			return driver.ErrSkip
		}
	}
	if p.checker == nil {
		return driver.ErrSkip
	}
	return p.checker.CheckNamedValue(v)
}

// Close implements driver.Conn. It can run under database/sql's db.mu.
func (c *conn) Close() error {
	if c.raw != nil {
		c.dropRaw()
	}
	if tx := c.tx; tx != nil { // the conn was thrown away under its transaction
		c.keeper.spawn(func() { _ = tx.Rollback() })
	}
	c.ownTx.fence.end()
	if l := c.ledger; l.maybe() && !l.parked.IsZero() {
		c.keeper.spawn(func() { c.keeper.lostRaw(l) })
	}
	if !c.open {
		return nil
	}
	return c.own.dc.Close()
}
