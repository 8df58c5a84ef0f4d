package conn

import (
	"context"
	"log/slog"
)

// settle decides what becomes of the session locks that lock statements may have
// left on the conn's own session, when that comes back to the pool. It tells
// whether the conn can go on: with nothing held on it. A session of which that
// cannot be had is closed, and the server releases.
//
// What a statement on the *sql.DB itself took is parked, since its goroutine will
// want to release it. What is left when a *sql.Conn is closed or a *sql.Tx has
// ended nobody can reach any more.
func (c *conn) settle() bool {
	if !c.ledger.maybe() || !c.open {
		c.ledger = rawLedger{}
		return true
	}
	k := c.keeper
	ctx, cancel := context.WithTimeout(context.Background(), cleanupBound)
	defer cancel()
	held, known, err := c.askLedger(ctx)
	switch {
	case err != nil:
		k.write(slog.LevelWarn, "lockdb: a connection was closed, since it cannot be told whether a statement left session locks on it", slog.Any("error", err))
		return false
	case known && held == 0:
		c.ledger = rawLedger{}
		return true
	case held > 0 && !c.ledger.inTx && direct() && k.opts.RawLocks == RawPark:
		return c.park()
	}
	left := c.ledger
	c.ledger = rawLedger{}
	released, err := k.dialect.RawReleaseAll(ctx, &c.own)
	switch {
	case err != nil:
		k.leftAt(left, "on a connection that could not be freed of them, and was closed: "+err.Error())
		return false
	case !known && released == 0:
	case !left.inTx && direct():
		k.leftAt(left, "by a statement of which the server does not say whether it took any: they were released")
	default:
		k.leftAt(left, "when its transaction ended or its *sql.Conn was closed: they were released")
	}
	return true
}
