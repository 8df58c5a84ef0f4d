package dialect

import (
	"context"
	"fmt"
	"strings"
)

// Find is one round trip. An unqualified name is looked for in the search_path.
func (t pgLeases) Find(ctx context.Context, q Querier) (Leases, error) {
	// A column is "name type nullable needed", each with a tab before the next.
	// quote_all_identifiers puts types in quotes.
	row, err := q.QuerySimple(ctx, "SELECT n.nspname::text,c.relkind::text,c.relpersistence::text,"+
		"(SELECT string_agg(concat_ws(E'\\t',a.attname,replace(format_type(a.atttypid,a.atttypmod),'\"',''),NOT a.attnotnull,"+
		"a.attnotnull AND NOT a.atthasdef AND a.attidentity=''),E'\\n') FROM pg_attribute a WHERE a.attrelid=c.oid AND a.attnum>0 AND NOT a.attisdropped),"+
		"(SELECT string_agg((SELECT string_agg(coalesce(a.attname,'?'),',' ORDER BY k.n) FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(att,n)"+
		" LEFT JOIN pg_attribute a ON a.attrelid=c.oid AND a.attnum=k.att AND k.att>0 WHERE k.n<=i.indnkeyatts)"+
		"||CASE WHEN i.indpred IS NULL AND i.indimmediate AND i.indisvalid THEN '' ELSE '?' END,E'\\n')"+
		" FROM pg_index i WHERE i.indrelid=c.oid AND i.indisunique)"+
		" FROM pg_class c JOIN pg_namespace n ON n.oid=c.relnamespace WHERE c.oid=to_regclass('"+t.table()+"')")
	if err != nil {
		return nil, fmt.Errorf("look for the table of leases: %w", err)
	}
	if len(row) != 5 {
		return nil, fmt.Errorf("%w: %s: %s", ErrNoLeaseTable, t.table(), t.DDL())
	}
	t.schema = text(row[0])
	var faults []string
	switch kind := text(row[1]); {
	case kind != "r" && kind != "p":
		faults = append(faults, "it is not a table")
	case text(row[2]) != "p":
		faults = append(faults, "it is unlogged or temporary, so that leases would be lost while they are held")
	default:
		faults = append(pgColumnFaults(text(row[3])), pgKeyFaults(text(row[4]))...)
	}
	if len(faults) > 0 {
		return nil, leaseShape(t.table(), t.DDL(), faults)
	}
	return t.withTexts(), nil
}

func pgColumnFaults(columns string) (faults []string) {
	types, nulls := map[string]string{}, map[string]bool{}
	for line := range strings.Lines(columns) {
		part := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(part) != 4 {
			continue
		}
		types[part[0]], nulls[part[0]] = part[1], part[2] == "t"
		if part[3] == "t" && !leaseColumn(part[0], "expires_at") {
			faults = append(faults, "its column "+part[0]+" has no default")
		}
	}
	want := [][2]string{{"lease_key", "text"}, {"owner", "text"}, {"token", "bigint"}, {"expires_at", "timestamp with time zone"}}
	for _, w := range want {
		kind, has := types[w[0]]
		switch {
		case !has:
			faults = append(faults, "it has no column "+w[0])
		case nulls[w[0]]:
			faults = append(faults, "its column "+w[0]+" may be NULL")
		case kind != w[1] && !(w[1] == "text" && pgLongEnough(kind)):
			faults = append(faults, "its column "+w[0]+" is a "+kind+", not a "+w[1])
		}
	}
	return faults
}

// pgLongEnough tells whether names fit into the type.
func pgLongEnough(kind string) bool {
	var length int
	n, _ := fmt.Sscanf(kind, "character varying(%d)", &length)
	return kind == "character varying" || n == 1 && length >= 64
}

// pgKeyFaults wants no unique keys but the two: a claim could never pass another one.
func pgKeyFaults(unique string) (faults []string) {
	var one, two bool
	for line := range strings.Lines(unique) {
		switch columns := strings.TrimSuffix(line, "\n"); columns {
		case "lease_key":
			one = true
		case "lease_key,token", "token,lease_key":
			two = true
		default:
			faults = append(faults, "it has a unique key of "+columns)
		}
	}
	if !one {
		faults = append(faults, "lease_key is not its primary key")
	}
	if !two {
		faults = append(faults, "it has no UNIQUE (lease_key, token)")
	}
	return faults
}
