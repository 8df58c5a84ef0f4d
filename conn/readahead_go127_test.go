//go:build go1.27

package conn

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// inPlaceRows scans in place, as pgx does since Go 1.27.
type inPlaceRows struct{ *scriptedRows }

func (r inPlaceRows) NextRow() error {
	return r.Next(make([]driver.Value, len(r.Columns())))
}

func (r inPlaceRows) ScanColumn(ctx driver.ScanContext, i int, dest any) error {
	return sql.ConvertAssign(ctx, dest, r.value(i))
}

// scanThrough is readThrough for a result set that is scanned in place.
func scanThrough(r driver.RowsColumnScanner, between func()) (seen []string) {
	note := func(format string, args ...any) { seen = append(seen, fmt.Sprintf(format, args...)) }
	sets := r.(driver.RowsNextResultSet)
	for {
		note("columns %v", r.Columns())
		for {
			between()
			if err := r.NextRow(); err != nil {
				note("%v", err)
				if !errors.Is(err, io.EOF) {
					return seen
				}
				break
			}
			for i := range r.Columns() {
				var value string
				between()
				note("%v %s", r.ScanColumn(driver.ScanContext{}, i, &value), value)
			}
		}
		between()
		note("more: %v", sets.HasNextResultSet())
		between()
		if err := sets.NextResultSet(); err != nil {
			note("%v", err)
			return seen
		}
	}
}

func TestReadingAheadChangesNothingForWhoScansInPlace(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 0))
		inner := randomRows(random)
		want := scanThrough(inPlaceRows{inner.copy()}, func() {})
		r := newTestRows(inPlaceRows{inner})
		got := scanThrough(wrapRows(r).(driver.RowsColumnScanner), func() { readSomeAhead(random, r) })
		require.Equal(t, want, got, "seed %d", seed)
	}
}
