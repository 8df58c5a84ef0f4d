package dialect

import (
	"context"
	"database/sql/driver"
	"errors"
)

// Claim reads the row as it is, not as it was in a snapshot: a statement that meets the row waits
// until a release that is under way has been committed.
//
// After a refusal the holder is not known: the caller looks, if it needs to know.
func (t mysqlLeases) Claim(ctx context.Context, q Querier, s LeaseServer, l Lease, c Companion) (g Grant, err error) {
	mode := c.Mode
	if s.StatementLog && mode != CompanionIgnored {
		// Replicas run the statement, too, and the companion must not be in it.
		row, err := q.QueryRow(ctx, mysqlLiterals("SELECT "+mysqlCompanion[mode], []driver.Value{c.Name.text}))
		if err != nil || len(row) != 1 {
			return g, err
		}
		if yes, _ := truth(row[0]); !yes {
			return g, nil
		}
		g.Taken, mode = mode == CompanionTaken, CompanionIgnored
	}
	for try := 1; ; try++ {
		var id int64
		id, err = t.tryClaim(ctx, q, l, Companion{mode, c.Name})
		if err == nil {
			return t.grant(g, id, mode)
		}
		if mode == CompanionTaken && mysqlAnswered(err) {
			// The statement was undone, but not what GET_LOCK did.
			if row, e := q.QueryRow(ctx, "SELECT IS_USED_LOCK('"+c.Name.text+"')=CONNECTION_ID()"); e == nil && len(row) == 1 {
				g.Taken, _ = truth(row[0])
			}
			if g.Taken {
				mode = CompanionIgnored
			}
		}
		if n := mysqlNumber(err); try == leaseTries || n != 1213 && n != 1020 {
			return g, err
		}
	}
}

// tryClaim is one statement, or two if the row was said to be there and is not, or the companion is
// not free.
func (t mysqlLeases) tryClaim(ctx context.Context, q Querier, l Lease, c Companion) (id int64, err error) {
	var key, me, ttl driver.Value = l.Key, l.Owner, l.TTL.Microseconds()
	companion := []driver.Value{c.Name.text}
	if c.Mode == CompanionIgnored {
		companion = nil
	}
	args := make([]driver.Value, 0, 9)
	if l.Seen {
		args = append(append(args, me, me, me, me, ttl, key), companion...)
		id, err = t.runPrepared(ctx, q, t.texts.update[c.Mode], args...)
		if id != 0 || err != nil {
			return id, err
		}
		if c.Mode == CompanionTaken {
			id, _, err = q.Run(ctx, mysqlLiterals(t.texts.again, []driver.Value{key, me, ttl, c.Name.text, c.Name.text, me, me, me, me, ttl}))
			return id, err
		}
	}
	args = append(append(args[:0], key, me, ttl), companion...)
	return t.runPrepared(ctx, q, t.texts.insert[c.Mode], append(args, me, me, me, me, ttl)...)
}

// mysqlTexts are the statements of a table's leases that are sent again and again.
type mysqlTexts struct {
	insert, update   [companionModes]string // claims
	again            string                 // a claim with the companion, after an UPDATE that may have taken that
	release, freeing string
}

// mysqlCompanion is true if the claim may go on.
var mysqlCompanion = [companionModes]string{
	CompanionFree:  "COALESCE(IS_USED_LOCK(?)=CONNECTION_ID(),1)=1",
	CompanionTaken: "GET_LOCK(?,0)=1",
}

// newMySQLTexts has LAST_INSERT_ID tell a claim's outcome: the token, or, negative, the time that the
// holder has left; 0 if the row is not there, or the companion not free. The assignments go from
// left to right, each on the values before it. An INSERT … ON DUPLICATE KEY UPDATE of a row that is
// there costs the server more than an UPDATE.
//
// The companion's call stands alone in the WHERE: in a derived table, whose condition the
// server may push down, it was evaluated twice. In an UPDATE it is evaluated once, too, but MySQL
// does so before it looks for the row, even if there is none, and MariaDB when it has the row under lock.
func newMySQLTexts(table string) *mysqlTexts {
	const mine = "IF(expires_us<=" + mysqlNow + " OR owner=?,"
	const set = "token=" + mine + "LAST_INSERT_ID(GREATEST(token+1," + mysqlNow + ")),token+0*LAST_INSERT_ID(" + mysqlNow + "-expires_us))," +
		"owner=" + mine + "?,owner)," +
		"expires_us=" + mine + mysqlNow + "+?,expires_us)"
	const row = "?,?,LAST_INSERT_ID(" + mysqlNow + ")," + mysqlNow + "+?"
	x := &mysqlTexts{}
	insert := func(values string) string {
		return "INSERT INTO " + table + " (lease_key,owner,token,expires_us) " + values + " ON DUPLICATE KEY UPDATE " + set
	}
	x.insert[CompanionIgnored] = insert("VALUES (" + row + ")")
	x.update[CompanionIgnored] = "UPDATE " + table + " SET " + set + " WHERE lease_key=?"
	for _, mode := range []CompanionMode{CompanionFree, CompanionTaken} {
		x.insert[mode] = insert("SELECT " + row + " FROM DUAL WHERE " + mysqlCompanion[mode])
		x.update[mode] = x.update[CompanionIgnored] + " AND " + mysqlCompanion[mode]
	}
	x.again = insert("SELECT " + row + " FROM DUAL WHERE IF(COALESCE(IS_USED_LOCK(?)=CONNECTION_ID(),0),1,GET_LOCK(?,0))=1")
	x.release = "UPDATE " + table + " SET expires_us=0*LAST_INSERT_ID(2+0*token) WHERE lease_key=? AND token=? AND owner=?"
	x.freeing = "UPDATE " + table + " SET expires_us=0*LAST_INSERT_ID(2+0*token+COALESCE(RELEASE_LOCK(?),0)) WHERE lease_key=? AND token=? AND owner=?"
	return x
}

func (mysqlLeases) grant(g Grant, id int64, mode CompanionMode) (Grant, error) {
	switch {
	case id > 0:
		g.Granted, g.Token = true, id
	case id < 0:
		g.Left = ofMicros(-id)
	case mode == CompanionIgnored:
		return g, errors.New("the server did not tell a claim's outcome as LAST_INSERT_ID")
	default:
		return g, nil // the companion is not free, and nothing was done
	}
	g.Taken = g.Taken || mode == CompanionTaken
	return g, nil
}
