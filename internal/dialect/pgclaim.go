package dialect

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
)

// Claim has all in one statement: the companion, a look at the row, and the row's change. That look spares
// a refusal the change, with its locks and its log.
//
// A release frees the companion before it is committed, so that who takes the companion may
// still have a snapshot in which the lease is held. The look therefore locks the row: it
// waits for such a release, and sees the row after it. The lock is one that a fence does not mind. A claim
// that can do without, since it will be tried again soon, looks at the snapshot.
func (t pgLeases) Claim(ctx context.Context, q Querier, s LeaseServer, l Lease, c Companion) (g Grant, err error) {
	mode := c.Mode
	if s.Pooled && mode == CompanionTaken {
		mode = CompanionIgnored // it would stay with a session that others use
	}
	quick := l.Seen && !s.Pooled && mode != CompanionFree
	for range leaseTries {
		var row []driver.Value
		row, err = t.tryClaim(ctx, q, s, l, Companion{mode, c.Name}, quick)
		quick = false
		if err == nil {
			if mode == CompanionTaken && len(row) > 0 {
				g.Taken, _ = truth(row[0])
			}
			var raced bool
			if g, raced, err = pgGrant(g, row); !raced {
				return g, err
			}
			err = errLeaseRaced
		}
		if mode == CompanionTaken && sqlState(err) != "" {
			// The statement was undone, but not what pg_try_advisory_lock did.
			g.Taken, _ = postgresDialect{}.holds(ctx, q, c.Name)
		}
		if g.Taken {
			mode = CompanionIgnored
		}
		switch sqlState(err) {
		case "23505", "40001", "40P01":
			continue
		}
		if !errors.Is(err, errLeaseRaced) {
			return g, err
		}
	}
	return g, err
}

func (t pgLeases) tryClaim(ctx context.Context, q Querier, s LeaseServer, l Lease, c Companion, quick bool) ([]driver.Value, error) {
	if !s.Pooled {
		query := t.texts.claim[c.Mode]
		if quick {
			query = t.texts.quick[c.Mode]
		}
		args := []any{l.Key, l.Owner, l.TTL.Microseconds()}
		if c.Mode != CompanionIgnored {
			args = append(args, c.Name.id)
		}
		return q.QueryRow(ctx, query, pgValues(args...)...)
	}
	return pgAlone(ctx, q, s, strings.NewReplacer("$1", "'"+l.Key+"'", "$2", "'"+l.Owner+"'", "$3", micros(l.TTL), "$4", number(c.Name.id)).Replace(t.claim(c.Mode, false)))
}

// pgUntil is a claim's expiry.
const pgUntil = "clock_timestamp()+$3::bigint*interval '1 microsecond'"

// pgCompanion is true if the claim may go on.
var pgCompanion = [companionModes]string{
	CompanionIgnored: "true",
	CompanionFree:    "pg_try_advisory_xact_lock($4::bigint)", // until the statement ends
	CompanionTaken:   "pg_try_advisory_lock($4::bigint)",
}

// quickClaim is claim for a row that is there and free: else it says that it was raced. The companion
// is in a table of its own, since an UPDATE that has waited for the row looks at its conditions again.
func (t pgLeases) quickClaim(mode CompanionMode) string {
	return "WITH c AS MATERIALIZED (SELECT " + pgCompanion[mode] + " AS mine)," +
		"acq AS (UPDATE " + t.table() + " l SET owner=$2::text,token=greatest(l.token+1," + pgNow + "),expires_at=" + pgUntil +
		" FROM c WHERE c.mine AND l.lease_key=$1::text AND (l.expires_at<=clock_timestamp() OR l.owner=$2::text) RETURNING l.token)" +
		"SELECT c.mine,acq.token,NULL::text,NULL::bigint FROM c LEFT JOIN acq ON true"
}

// claim is the same text for all claims, so that it is prepared once. Its row is: whether the
// companion allowed it, the token if granted, and the owner and the time that was left.
func (t pgLeases) claim(mode CompanionMode, lock bool) string {
	locking := ""
	if lock {
		locking = " FOR NO KEY UPDATE OF l"
	}
	return "WITH c AS MATERIALIZED (SELECT " + pgCompanion[mode] + " AS mine)," +
		"cur AS MATERIALIZED (SELECT l.owner,l.expires_at FROM c," + t.table() + " l WHERE c.mine AND l.lease_key=$1::text" + locking + ")," +
		"acq AS (INSERT INTO " + t.table() + " AS l (lease_key,owner,token,expires_at) SELECT $1::text,$2::text," + pgNow + "," + pgUntil + " FROM c" +
		" WHERE c.mine AND NOT EXISTS (SELECT FROM cur WHERE cur.owner<>$2::text AND cur.expires_at>clock_timestamp())" +
		" ON CONFLICT (lease_key) DO UPDATE SET owner=excluded.owner,token=greatest(l.token+1," + pgNow + "),expires_at=" + pgUntil +
		" WHERE l.expires_at<=clock_timestamp() OR l.owner=excluded.owner RETURNING l.token)" +
		"SELECT c.mine,acq.token,cur.owner," + pgLeft + " FROM c LEFT JOIN acq ON true LEFT JOIN cur ON true"
}

// pgGrant reads a claim's row. raced: the row has changed since the look, so that the look means nothing.
func pgGrant(g Grant, row []driver.Value) (_ Grant, raced bool, err error) {
	if len(row) != 4 {
		return g, false, fmt.Errorf("a claim gave %d columns", len(row))
	}
	if mine, _ := truth(row[0]); !mine {
		return g, false, nil
	}
	if row[1] != nil {
		g.Granted = true
		g.Token, err = integer(row[1])
		return g, false, err
	}
	if row[2] == nil || row[3] == nil {
		return g, true, nil
	}
	left, err := integer(row[3])
	if err != nil || left <= 0 {
		return g, err == nil, err
	}
	g.Known, g.Holder, g.Left = true, text(row[2]), ofMicros(left)
	return g, false, nil
}
