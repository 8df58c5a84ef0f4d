//go:build go1.27

package conn

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
)

// scanRows is a result set whose inner Rows scans into the user's variables
// itself. It is a type of its own, since database/sql asks by the interface
// whether it does.
type scanRows struct{ *rows }

// inPlace is the current row of an inner Rows that scans in place.
type inPlace struct {
	held bool           // it waits in the inner Rows
	row  []driver.Value // it was read ahead
}

var _ driver.RowsColumnScanner = scanRows{}

// wrapRows gives database/sql the result set.
func wrapRows(r *rows) driver.Rows {
	if _, ok := r.inner.(driver.RowsColumnScanner); ok {
		return scanRows{r}
	}
	return r
}

// NextRow implements driver.RowsColumnScanner.
func (r scanRows) NextRow() error {
	return r.under(func() error {
		ok, row, err := r.nextAhead()
		if ok {
			r.row, r.held = row, false
			return err
		}
		err = r.inner.(driver.RowsColumnScanner).NextRow()
		r.row, r.held, r.atEnd = nil, err == nil, errors.Is(err, io.EOF)
		return err
	})
}

// ScanColumn implements driver.RowsColumnScanner.
func (r scanRows) ScanColumn(scanCtx driver.ScanContext, index int, dest any) error {
	var scanErr error // a failed conversion is no failure of the connection
	err := r.under(func() error {
		switch {
		case r.held:
			scanErr = r.inner.(driver.RowsColumnScanner).ScanColumn(scanCtx, index, dest)
		case index < len(r.row):
			scanErr = r.scanAhead(scanCtx, index, dest)
		default:
			scanErr = errors.New("lockdb: ScanColumn without a row")
		}
		return nil
	})
	if err == nil {
		err = scanErr
	}
	return err
}

// scanAhead scans from a row that was read ahead. pgx scans what database/sql
// cannot, such as arrays into slices, by the column's type from its text.
func (r scanRows) scanAhead(scanCtx driver.ScanContext, index int, dest any) error {
	value := r.row[index]
	err := sql.ConvertAssign(scanCtx, dest, value)
	if err == nil || r.sess.pg == nil || len(r.ahead) == 0 {
		return err
	}
	var src []byte
	switch v := value.(type) {
	case string:
		src = []byte(v)
	case []byte:
		src = v
	case nil:
	default:
		return err
	}
	types := r.sess.pg.TypeMap()
	if t, ok := types.TypeForName(strings.ToLower(r.ahead[0].types[index].databaseType)); ok &&
		types.Scan(t.OID, pgx.TextFormatCode, src, dest) == nil {
		return nil
	}
	return err
}

// keepRow saves the current row, which the user may not have scanned yet,
// before the inner Rows moves on.
func (r *rows) keepRow() {
	if !r.held {
		return
	}
	row := make([]driver.Value, len(r.inner.Columns()))
	for i := range row {
		var v any
		if r.inner.(driver.RowsColumnScanner).ScanColumn(driver.ScanContext{}, i, &v) == nil {
			row[i] = v
		}
	}
	cloneBytes(row)
	r.row, r.held = row, false
}
