package dialect

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"time"
)

// pgLeases takes the name of the table as SQL takes it without quotes: in lower case.
type pgLeases struct {
	leaseTable
	texts *pgTexts
}

func (postgresDialect) Leases(table string) Leases {
	return pgLeases{leaseTable: newLeaseTable(strings.ToLower(table))}.withTexts()
}

// pgTexts are the statements of a table's leases that are sent again and again.
type pgTexts struct {
	claim, quick     [companionModes]string
	release, freeing string
}

func (t pgLeases) withTexts() pgLeases {
	x := &pgTexts{}
	for mode := range CompanionMode(companionModes) {
		x.claim[mode], x.quick[mode] = t.claim(mode, mode != CompanionFree), t.quickClaim(mode)
	}
	x.release = "UPDATE " + t.table() + " SET expires_at='epoch' WHERE lease_key=$1::text AND token=$2::bigint AND owner=$3::text RETURNING "
	x.freeing = x.release + "pg_advisory_unlock($4::bigint)," + pgUnsynced
	x.release += "false," + pgUnsynced
	t.texts = x
	return t
}

// pgNow is the database's time in microseconds, when it is evaluated; now() would be the time at
// which the transaction began.
const pgNow = "(extract(epoch from clock_timestamp())*1000000)::bigint"

// pgLeft is how long the lease has still, in microseconds.
const pgLeft = "(extract(epoch from expires_at-clock_timestamp())*1000000)::bigint"

func (t pgLeases) table() string { return t.quoted(`"`) }

// DDL has a unique key of the token: so that a fence's FOR KEY SHARE, which passes over a
// renewal, minds another token. Half of each page is left to renewals, which then touch no index.
func (t pgLeases) DDL() string {
	return "CREATE TABLE IF NOT EXISTS " + t.table() + ` (lease_key text COLLATE "C" PRIMARY KEY, owner text COLLATE "C" NOT NULL, ` +
		"token bigint NOT NULL, expires_at timestamptz NOT NULL, UNIQUE (lease_key, token)) WITH (fillfactor=50)"
}

// Create passes over what happens to those who create the table at the same time.
func (t pgLeases) Create(ctx context.Context, q Querier, s LeaseServer) (err error) {
	if s.Pooled {
		_, err = pgAlone(ctx, q, s, t.DDL())
	} else {
		err = q.Exec(ctx, t.DDL())
	}
	switch sqlState(err) {
	case "23505", "42P07", "42710": // a duplicate in the catalogue, a duplicate table, a duplicate type
		return nil
	}
	return err
}

func (t pgLeases) Look(ctx context.Context, q Querier, key string) (row LeaseRow, found bool, err error) {
	values, err := q.QuerySimple(ctx, "SELECT owner,token,"+pgLeft+" FROM "+t.table()+" WHERE lease_key='"+key+"'")
	return leaseRow(values, err)
}

// pgUnsynced has the transaction's commit not wait for the disk.
const pgUnsynced = "set_config('synchronous_commit','off',true)"

// Release frees the companion before its own transaction is over: whoever gets it waits for the
// row in its claim.
//
// Its commit does not wait for the disk: should the server crash before it is there, the lease lasts
// until its expiry, as if its holder had crashed. It cannot undo the release once somebody else was granted
// the lease, since the log is written in order.
func (t pgLeases) Release(ctx context.Context, q Querier, s LeaseServer, l Lease, companion *Name) (released, freed bool, err error) {
	var row []driver.Value
	if s.Pooled {
		row, err = pgAlone(ctx, q, s, "UPDATE "+t.table()+" SET expires_at='epoch' WHERE lease_key='"+l.Key+"' AND token="+number(l.Token)+" AND owner='"+l.Owner+"' RETURNING false,"+pgUnsynced)
	} else {
		query, args := t.texts.release, []any{l.Key, l.Token, l.Owner}
		if companion != nil {
			query, args = t.texts.freeing, append(args, companion.id)
		}
		row, err = q.QueryRow(ctx, query, pgValues(args...)...)
	}
	if err != nil || len(row) != 2 {
		return false, false, err
	}
	freed, _ = truth(row[0])
	return true, freed, nil
}

// pgIs is true of the lease's row while it is the lease's.
func pgIs(l Lease) string {
	return "lease_key='" + l.Key + "' AND token=" + number(l.Token) + " AND owner='" + l.Owner + "'"
}

// Prune passes over rows that others have locked. A new lease of the key gets a token of the
// time then, so that it grows.
func (t pgLeases) Prune(ctx context.Context, q Querier, s LeaseServer, age time.Duration, limit int) (int64, error) {
	query := "WITH idle AS MATERIALIZED (SELECT lease_key FROM " + t.table() + " WHERE expires_at<clock_timestamp()-" + micros(age) +
		"*interval '1 microsecond' AND token<" + pgNow + "-" + micros(age) + " LIMIT " + number(int64(limit)) + " FOR UPDATE SKIP LOCKED), " +
		"gone AS (DELETE FROM " + t.table() + " l USING idle WHERE l.lease_key=idle.lease_key RETURNING 1) SELECT count(*) FROM gone"
	row, err := pgAlone(ctx, q, s, query)
	if err != nil || len(row) != 1 {
		return 0, err
	}
	return integer(row[0])
}

func (pgLeases) Fault(err error) LeaseFault {
	switch Postgres.Classify(err) {
	case ClassOther, ClassGone:
		if errors.Is(err, errLeaseRaced) {
			return LeaseFaultRetry
		}
		return LeaseFaultOther
	case ClassUnsupported:
		return LeaseFaultNoLocks
	}
	switch sqlState(err) {
	case "40001", "40P01", "55P03", "23505": // serialization, deadlock, lock timeout, another row of the key
		return LeaseFaultRetry
	case "42P01", "3F000": // undefined_table, invalid_schema_name
		return LeaseFaultNoTable
	case "42703", "42P10", "42804", "42846", "22P02", "22001", "23502": // an unknown column, no unique key, types, lengths, no default
		return LeaseFaultShape
	case "42501":
		return LeaseFaultForbidden
	case "25006":
		return LeaseFaultReadOnly
	}
	return LeaseFaultRefused
}

func pgValues(args ...any) []driver.NamedValue {
	values := make([]driver.NamedValue, len(args))
	for i, a := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return values
}
