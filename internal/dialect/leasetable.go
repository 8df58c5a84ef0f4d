package dialect

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// leaseTable is the name of a table of leases. schema is "" until Find knows it, unless the user
// gave it.
type leaseTable struct{ schema, name string }

func newLeaseTable(table string) leaseTable {
	if schema, name, qualified := strings.Cut(table, "."); qualified {
		return leaseTable{schema, name}
	}
	return leaseTable{"", table}
}

// quoted puts each part between the family's quotes: a name may be a reserved word, but holds no quote.
func (t leaseTable) quoted(quote string) string {
	if t.schema == "" {
		return quote + t.name + quote
	}
	return quote + t.schema + quote + "." + quote + t.name + quote
}

// Name implements Leases.
func (t leaseTable) Name() string {
	if t.schema == "" {
		return t.name
	}
	return t.schema + "." + t.name
}

// leaseShape is the error of a table that cannot hold leases.
func leaseShape(table, ddl string, faults []string) error {
	return fmt.Errorf("%w: %s: %s; make it anew, or name another one (lockdb_lease_table): %s",
		ErrLeaseTableShape, table, strings.Join(faults, ", "), ddl)
}

// errLeaseRaced is a claim's that others came before, each time that it was tried.
var errLeaseRaced = errors.New("other claims of the lease interfered again and again")

// leaseTries is how often a claim is tried, in which others interfere.
const leaseTries = 3

func micros(d time.Duration) string { return strconv.FormatInt(max(0, d.Microseconds()), 10) }

// ofMicros bounds what no Duration can hold: a row may have been written by anybody.
func ofMicros(us int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(min(max(us, -most), most)) * time.Microsecond
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
