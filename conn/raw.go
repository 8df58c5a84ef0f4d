package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lockdb/lockdb/internal/dialect"
	"github.com/lockdb/lockdb/internal/sqlscan"
)

// Lock statements that a program sends as SQL text, outside of a lock's context,
// run on the conn's own session. What they leave there its ledger knows, by the
// results seen or by asking the server, and when the conn comes back to the pool
// it is settled (settle.go): released, or parked with the session (park.go).

// asked notes who sent a lock statement, and what it names. Who only releases
// what an orphan has left does not come to own the rest.
func (c *conn) asked(query string, args []driver.NamedValue) {
	l := &c.ledger
	if !l.maybe() {
		l.owner = goid()
	}
	l.inTx = l.inTx || c.ownTxs > 0
	locks, known := c.keeper.dialect.RawLocks(query, args)
	for _, name := range locks {
		if !slices.Contains(l.locks, name) {
			l.locks = append(l.locks, name)
		}
	}
	l.others = l.others || !known
}

// seesRaw tells what a statement on the conn's own session may do with locks; 0
// is nothing, or that nobody wants to know.
func (c *conn) seesRaw(query string) sqlscan.Verdict {
	if c.keeper.opts.RawLocks == RawOff {
		return 0
	}
	s := &c.scanned
	switch {
	case len(query) > len(s.text):
		return c.keeper.dialect.RawScan(query)
	case s.n != len(query) || string(s.text[:s.n]) != query:
		s.n, s.sees = copy(s.text[:], query), c.keeper.dialect.RawScan(query)
	}
	return s.sees
}

// scanned is the short text that a conn has last seen: mostly it is the same one
// again, and comparing is quicker than looking. It is a copy, since a program may
// make its texts in memory that it uses again.
type scanned struct {
	text [160]byte
	n    int
	sees sqlscan.Verdict
}

// beforeRaw prepares the conn for a lock statement: it refuses it, or takes the
// session that the goroutine has parked. The conn may have no session yet.
// fromDB: as far as the caller knows it is a statement on the *sql.DB itself.
func (c *conn) beforeRaw(ctx context.Context, query string, args []driver.NamedValue, v sqlscan.Verdict, fromDB bool) error {
	k := c.keeper
	if _, onLock, err := c.target(ctx); onLock || err != nil {
		return err // a lock's session has rules of its own
	}
	if k.opts.RawLocks == RawRefuse {
		return refuseRaw(v)
	}
	if k.parked.count.Load() > 0 && c.ownTxs == 0 && fromDB && !c.ledger.maybe() && direct() {
		c.takeParked(ctx, query, args, v)
		return ctx.Err() // pgx would close the connection, and the locks would go
	}
	return nil
}

// refuseRaw is what lockdb_raw=refuse says.
func refuseRaw(v sqlscan.Verdict) error {
	what := "a statement that may take or release session locks"
	if v.Has(sqlscan.MayLock) && !v.Has(sqlscan.Opaque) {
		what = "a statement that takes a session lock"
	} else if v.Has(sqlscan.MayUnlock) && !v.Has(sqlscan.Opaque) {
		what = "a statement that releases session locks"
	}
	return fault("", what+" is refused here (lockdb_raw=refuse): write l, err := lockctx.Acquire(ctx, db, key); defer l.Close(), "+
		"and run the work under l.Context(); or use lockctx.Pin for a session of your own", ErrUnsupported)
}

// rawQuery is QueryContext on the own session for a lock statement.
func (c *conn) rawQuery(query string, args []driver.NamedValue, run func() (driver.Rows, error)) (driver.Rows, error) {
	rows, err := run()
	if errors.Is(err, driver.ErrSkip) {
		return nil, err // database/sql prepares it
	}
	c.asked(query, args)
	call, plain := c.keeper.dialect.RawPlain(query, args)
	if err != nil || !plain {
		c.ledger.unsure = true
		return rows, err
	}
	seen := newSeenRows(rows)
	c.saw(call, seen)
	return seen, nil
}

// saw notes the result of a plain call.
func (c *conn) saw(call dialect.RawCall, r *seenRows) {
	l, fn, grant := &c.ledger, call.Fn, rawGrant{call.Lock, call.Shared}
	if r.err != nil || len(r.row) != 1 || r.row[0] == nil && fn != sqlscan.Unlock {
		l.unsure = true // GET_LOCK's NULL stands for an error, KILL QUERY's for one
		return
	}
	yes := isTrue(r.row[0]) || c.keeper.dialect.Name() == "postgres" && fn == sqlscan.Lock // whose result is void
	switch {
	case fn == sqlscan.UnlockAll:
		*l = rawLedger{}
	case fn == sqlscan.Unlock && yes:
		i := slices.Index(l.seen, grant)
		if i < 0 {
			i = slices.Index(l.seen, rawGrant{}) // of which the text did not tell the name
		}
		if i >= 0 {
			l.seen = slices.Delete(l.seen, i, i+1)
		} else {
			l.unsure = true // it was taken unseen, and what was seen may be held as before
		}
	case fn == sqlscan.Unlock:
		c.keeper.releasedNothing(call.Lock)
	case yes:
		l.seen = append(l.seen, grant)
	}
	if !l.maybe() {
		*l = rawLedger{}
	}
}

func isTrue(v driver.Value) bool {
	switch v := v.(type) {
	case bool:
		return v
	case int64:
		return v == 1
	case []byte:
		return string(v) == "1" || string(v) == "t"
	case string:
		return v == "1" || v == "t"
	}
	return false
}

// rawExec is ExecContext on the own session for a lock statement. Of one plain call
// it sees the answer that its user does not: it runs ask, which is QueryContext.
func (c *conn) rawExec(query string, args []driver.NamedValue, run func() (driver.Result, error), ask func() (driver.Rows, error)) (driver.Result, error) {
	if _, plain := c.keeper.dialect.RawPlain(query, args); plain {
		rows, err := c.rawQuery(query, args, ask)
		if err == nil {
			err = drain(rows)
		}
		switch {
		case err != nil:
			return nil, err
		case c.own.pg != nil:
			return driver.RowsAffected(1), nil
		}
		return noResult{}, nil
	}
	res, err := run()
	if !errors.Is(err, driver.ErrSkip) {
		c.asked(query, args)
		c.ledger.unsure = true
	}
	return res, err
}

// drain reads a result set to its end and closes it.
func drain(rows driver.Rows) (err error) {
	row := make([]driver.Value, len(rows.Columns()))
	for err == nil {
		err = rows.Next(row)
	}
	if cerr := rows.Close(); errors.Is(err, io.EOF) {
		err = cerr
	}
	return err
}

// noResult is what MySQL's driver has of a SELECT.
type noResult struct{}

func (noResult) LastInsertId() (int64, error) { return 0, nil }
func (noResult) RowsAffected() (int64, error) { return 0, nil }

// askLedger asks the server what is held, if that is not known. known is false
// if it does not say.
func (c *conn) askLedger(ctx context.Context) (held int64, known bool, err error) {
	l := &c.ledger
	if !l.unsure {
		return int64(len(l.seen)), true, nil
	}
	if c.own.pg != nil && c.own.pg.PgConn().TxStatus() != 'I' {
		return 0, false, nil
	}
	return c.keeper.dialect.RawHeld(ctx, &c.own, l.locks, !l.others)
}

// leftAt tells what was left on a session when it came back.
func (k *Keeper) leftAt(l rawLedger, what string) {
	k.tell(Event{Kind: EventLeft, Keys: slices.Clone(l.locks), Key: firstOf(l.locks), Err: fmt.Errorf("session locks taken in SQL text were left %s", what)})
}

func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}
