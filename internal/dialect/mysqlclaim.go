package dialect

import (
	"context"
	"errors"
)

// Claim reads the row as it is, not as it was in a snapshot: an INSERT that meets the row waits
// until a release that is under way has been committed.
//
// After a refusal the holder is not known: the caller looks, if it needs to know.
func (t mysqlLeases) Claim(ctx context.Context, q Querier, s LeaseServer, l Lease, c Companion) (g Grant, err error) {
	mode := c.Mode
	if s.StatementLog && mode != CompanionIgnored {
		// Replicas run the statement, too, and the companion must not be in it.
		row, err := q.QueryRow(ctx, "SELECT "+mysqlCompanion(c))
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
		id, _, err = q.Run(ctx, t.claim(l, Companion{mode, c.Name}))
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

// mysqlCompanion is 1 if the claim may go on.
func mysqlCompanion(c Companion) string {
	if c.Mode == CompanionTaken {
		return "GET_LOCK('" + c.Name.text + "',0)"
	}
	return "COALESCE(IS_USED_LOCK('" + c.Name.text + "')=CONNECTION_ID(),1)"
}

// claim has LAST_INSERT_ID tell the outcome: the token, or, negative, the time that the
// holder has left. The assignments go from left to right, each on the values before it.
//
// The companion's call stands alone in the WHERE: in a derived table, whose condition the
// server may push down, it was evaluated twice.
func (t mysqlLeases) claim(l Lease, c Companion) string {
	key, me, until := "'"+l.Key+"'", "'"+l.Owner+"'", mysqlNow+"+"+micros(l.TTL)
	row := key + "," + me + ",LAST_INSERT_ID(" + mysqlNow + ")," + until
	if c.Mode == CompanionIgnored {
		row = "VALUES (" + row + ")"
	} else {
		row = "SELECT " + row + " FROM DUAL WHERE " + mysqlCompanion(c) + "=1"
	}
	mine := "IF(expires_us<=" + mysqlNow + " OR owner=" + me + ","
	return "INSERT INTO " + t.table() + " (lease_key,owner,token,expires_us) " + row + " ON DUPLICATE KEY UPDATE " +
		"token=" + mine + "LAST_INSERT_ID(GREATEST(token+1," + mysqlNow + ")),token+0*LAST_INSERT_ID(" + mysqlNow + "-expires_us))," +
		"owner=" + mine + me + ",owner)," +
		"expires_us=" + mine + until + ",expires_us)"
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
