package dialect

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
)

// Find takes two round trips. A table of which the account may see nothing is not there.
func (t mysqlLeases) Find(ctx context.Context, q Querier) (Leases, error) {
	schema := "DATABASE()"
	if t.schema != "" {
		schema = "'" + t.schema + "'"
	}
	where := " WHERE TABLE_SCHEMA=" + schema + " AND TABLE_NAME='" + t.name + "'"
	columns, err := q.QueryAll(ctx, "SELECT "+schema+",t.TABLE_TYPE,t.ENGINE,c.COLUMN_NAME,c.COLUMN_TYPE,c.IS_NULLABLE,"+
		"c.COLUMN_DEFAULT IS NULL AND c.EXTRA='' FROM (SELECT 1) one "+
		"LEFT JOIN (SELECT * FROM information_schema.TABLES"+where+") t ON TRUE "+
		"LEFT JOIN (SELECT * FROM information_schema.COLUMNS"+where+") c ON TRUE")
	if err != nil {
		return nil, fmt.Errorf("look for the table of leases: %w", err)
	}
	if len(columns) == 0 || columns[0][0] == nil {
		return nil, ErrNoDatabase
	}
	if columns[0][1] == nil {
		return nil, fmt.Errorf("%w: %s: %s", ErrNoLeaseTable, t.table(), t.DDL())
	}
	t.schema = text(columns[0][0])
	t.texts = newMySQLTexts(t.table())
	unique, err := q.QueryRows(ctx, "SELECT CONCAT(IF(INDEX_NAME='PRIMARY','primary:',''),GROUP_CONCAT(COALESCE(COLUMN_NAME,'?'),COALESCE(SUB_PART,'') ORDER BY SEQ_IN_INDEX))"+
		" FROM information_schema.STATISTICS"+where+" AND NON_UNIQUE=0 GROUP BY INDEX_NAME")
	if err != nil {
		return nil, fmt.Errorf("look for the keys of the table of leases: %w", err)
	}
	if faults := append(mysqlColumnFaults(columns), mysqlKeyFaults(unique)...); len(faults) > 0 {
		return nil, leaseShape(t.table(), t.DDL(), faults)
	}
	return t, nil
}

func mysqlColumnFaults(rows [][]driver.Value) (faults []string) {
	if kind, engine := text(rows[0][1]), text(rows[0][2]); kind != "BASE TABLE" {
		return []string{"it is a " + strings.ToLower(kind)}
	} else if !strings.EqualFold(engine, "InnoDB") {
		faults = append(faults, "its engine is "+engine+", not InnoDB")
	}
	types, nulls := map[string]string{}, map[string]bool{}
	for _, row := range rows {
		name := strings.ToLower(text(row[3]))
		types[name], nulls[name] = strings.ToLower(text(row[4])), text(row[5]) == "YES"
		if needed, _ := truth(row[6]); needed && !nulls[name] && !leaseColumn(name, "expires_us") {
			faults = append(faults, "its column "+name+" has no default")
		}
	}
	for _, name := range []string{"lease_key", "owner", "token", "expires_us"} {
		kind, has := types[name]
		var length int
		_, _ = fmt.Sscanf(kind, "varbinary(%d)", &length)
		isBigint := strings.HasPrefix(kind, "bigint") && !strings.Contains(kind, "unsigned")
		isName := length >= 64
		switch {
		case !has:
			faults = append(faults, "it has no column "+name)
		case nulls[name]:
			faults = append(faults, "its column "+name+" may be NULL")
		case (name == "lease_key" || name == "owner") && !isName:
			faults = append(faults, "its column "+name+" is a "+kind+", not a varbinary(64)")
		case (name == "token" || name == "expires_us") && !isBigint:
			faults = append(faults, "its column "+name+" is a "+kind+", not a bigint")
		}
	}
	return faults
}

// mysqlKeyFaults wants no unique key but of lease_key: a claim that met another one would write to the
// row of another lease.
func mysqlKeyFaults(unique []driver.Value) (faults []string) {
	has := false
	for _, v := range unique {
		switch columns := strings.ToLower(text(v)); columns {
		case "primary:lease_key":
			has = true
		case "lease_key", "lease_key,token", "token,lease_key": // which PostgreSQL needs
		default:
			faults = append(faults, "it has a unique key of "+strings.TrimPrefix(columns, "primary:"))
		}
	}
	if !has {
		faults = append(faults, "lease_key is not its primary key")
	}
	return faults
}

// leaseColumn tells whether a column is one of a table of leases.
func leaseColumn(name, expiry string) bool {
	return name == "lease_key" || name == "owner" || name == "token" || name == expiry
}
