package dialect

import (
	"context"
	"database/sql/driver"
	"strings"
)

// pgOwnRow is true of a row that is a lease's own and was not released.
const pgOwnRow = "l.lease_key=v.k AND l.token=v.t AND l.owner=v.o AND l.expires_at>'epoch'"

func (t pgLeases) Renew(ctx context.Context, q Querier, s LeaseServer, leases []Lease) (int, error) {
	query := "WITH r AS (UPDATE " + t.table() + " l SET expires_at=clock_timestamp()+v.d*interval '1 microsecond' FROM " + pgUnnest +
		" v(k,o,t,d) WHERE " + pgOwnRow + " RETURNING 1) SELECT count(*) FROM r"
	var row []driver.Value
	var err error
	arrays := pgArrays(leases)
	if s.Pooled {
		row, err = pgAlone(ctx, q, s, pgLiterals(query, arrays))
	} else {
		row, err = q.QueryRow(ctx, query, pgValues(arrays...)...)
	}
	if err != nil || len(row) != 1 {
		return 0, err
	}
	renewed, err := integer(row[0])
	return int(renewed), err
}

func (t pgLeases) Moved(ctx context.Context, q Querier, _ LeaseServer, leases []Lease) ([]int, error) {
	return integers(q.QueryRows(ctx, pgLiterals("SELECT v.i-1 FROM "+pgUnnest+" WITH ORDINALITY v(k,o,t,d,i) WHERE NOT EXISTS (SELECT FROM "+
		t.table()+" l WHERE "+pgOwnRow+") ORDER BY v.i", pgArrays(leases))))
}

// Unlocked locks the rows that it can have, as a renewal does, until it ends.
func (t pgLeases) Unlocked(ctx context.Context, q Querier, s LeaseServer, leases []Lease) ([]int, error) {
	query := pgLiterals("WITH f AS MATERIALIZED (SELECT v.i-1 AS i FROM "+pgUnnest+" WITH ORDINALITY v(k,o,t,d,i) JOIN "+t.table()+" l ON "+pgOwnRow+
		" FOR NO KEY UPDATE OF l SKIP LOCKED) SELECT coalesce(string_agg(i::text,','),'') FROM f", pgArrays(leases))
	alone := q.QuerySimple
	if s.Pooled {
		alone = func(ctx context.Context, query string) ([]driver.Value, error) { return pgAlone(ctx, q, s, query) }
	}
	row, err := alone(ctx, query)
	if err != nil || len(row) != 1 {
		return nil, err
	}
	var indices []driver.Value
	for i := range strings.FieldsFuncSeq(text(row[0]), func(r rune) bool { return r == ',' }) {
		indices = append(indices, i)
	}
	return integers(indices, nil)
}

const pgUnnest = "unnest($1::text[],$2::text[],$3::bigint[],$4::bigint[])"

// pgArrays are the leases' keys, owners, tokens and TTLs as literals of arrays, which every way of sending
// them takes. The quotes keep a key of the name null from being one.
func pgArrays(leases []Lease) []any {
	keys, owners, tokens, ttls := make([]string, len(leases)), make([]string, len(leases)), make([]string, len(leases)), make([]string, len(leases))
	for i, l := range leases {
		keys[i], owners[i], tokens[i], ttls[i] = `"`+l.Key+`"`, `"`+l.Owner+`"`, number(l.Token), micros(l.TTL)
	}
	arrays := make([]any, 4)
	for i, a := range [][]string{keys, owners, tokens, ttls} {
		arrays[i] = "{" + strings.Join(a, ",") + "}"
	}
	return arrays
}

func pgLiterals(query string, arrays []any) string {
	return strings.NewReplacer("$1", "'"+arrays[0].(string)+"'", "$2", "'"+arrays[1].(string)+"'",
		"$3", "'"+arrays[2].(string)+"'", "$4", "'"+arrays[3].(string)+"'").Replace(query)
}
