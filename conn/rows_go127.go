//go:build go1.27

package conn

import (
	"cmp"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
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
		err = r.read(r.inner.(driver.RowsColumnScanner).NextRow)
		r.row, r.held, r.atEnd = nil, err == nil, errors.Is(err, io.EOF)
		return err
	})
}

// ScanColumn implements driver.RowsColumnScanner. It scans as pgx does: what is
// database/sql's to convert goes through it, and the rest through pgx's types.
// database/sql may call the user's code (a sql.Scanner), which may take its time
// or use the lock: not under io.
func (r scanRows) ScanColumn(scanCtx driver.ScanContext, index int, dest any) error {
	var value any
	var scanErr error // a failed conversion is no failure of the connection
	ours := r.sess.pg == nil || forDatabaseSQL(dest)
	err := r.under(func() error {
		switch {
		case r.held && r.sess.pg != nil && ours:
			scanErr = r.inner.(driver.RowsColumnScanner).ScanColumn(driver.ScanContext{}, index, &value)
		case r.held:
			ours = false
			scanErr = r.inner.(driver.RowsColumnScanner).ScanColumn(scanCtx, index, dest)
		case index >= len(r.row):
			scanErr = errors.New("lockdb: ScanColumn without a row")
		case ours:
			value = r.row[index]
		default:
			scanErr = r.scanAhead(index, dest)
		}
		return nil
	})
	if err = cmp.Or(err, scanErr); err != nil || !ours {
		return err
	}
	if bad, ok := value.(unread); ok {
		return bad.error
	}
	return sql.ConvertAssign(scanCtx, dest, value)
}

// scanAhead scans from a row that was read ahead what is not database/sql's to
// convert, such as arrays into slices. What pgx made of the column is brought
// back into PostgreSQL's form.
func (r scanRows) scanAhead(index int, dest any) error {
	types := r.sess.pg.TypeMap()
	oid, format := r.oid(index), int16(pgx.TextFormatCode)
	var src []byte
	switch v := r.row[index].(type) {
	case nil:
	case unread:
		return v.error
	case string:
		src = []byte(v)
	case []byte: // bytea or, in its text, JSON or XML
		src = v
		if oid == pgtype.ByteaOID {
			format = pgx.BinaryFormatCode
		}
	default:
		var err error
		format = pgx.BinaryFormatCode
		if src, err = types.Encode(oid, format, v, nil); err != nil {
			return err
		}
	}
	return types.Scan(oid, format, src, dest)
}

// oid is the column's type, of which pgx tells the name, or the number if it
// does not know it.
func (r scanRows) oid(index int) uint32 {
	var name string
	if len(r.ahead) > 0 {
		name = r.ahead[0].types[index].databaseType
	}
	if t, ok := r.sess.pg.TypeMap().TypeForName(strings.ToLower(name)); ok {
		return t.OID
	}
	n, _ := strconv.ParseUint(name, 10, 32)
	return uint32(n)
}

// forDatabaseSQL tells whether pgx leaves the conversion to database/sql: for
// scalars, bytes, times and sql.Scanners, and pointers to them.
func forDatabaseSQL(dest any) bool {
	t := reflect.TypeOf(dest)
	for range 10 { // a pointer type can be defined as a pointer to itself
		switch {
		case t == nil || t.Implements(reflect.TypeFor[sql.Scanner]()):
			return true
		case t.Implements(reflect.TypeFor[pgtype.ArraySetter]()) || t.Implements(reflect.TypeFor[pgtype.BytesScanner]()):
			return false
		}
		switch t.Kind() {
		case reflect.Pointer:
			t = t.Elem()
			continue
		case reflect.Slice:
			return t.Elem().Kind() == reflect.Uint8
		case reflect.Struct:
			return t.ConvertibleTo(reflect.TypeFor[time.Time]())
		case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
			reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
			reflect.Float32, reflect.Float64, reflect.String, reflect.Interface:
			return true
		}
		return false
	}
	return false
}

// unread stands in a row for a value that pgx could not read.
type unread struct{ error }

// keepRow saves the current row, which the user may not have scanned yet,
// before the inner Rows moves on.
func (r *rows) keepRow() {
	if !r.held {
		return
	}
	row := make([]driver.Value, len(r.cols))
	for i := range row {
		var v any
		if err := r.inner.(driver.RowsColumnScanner).ScanColumn(driver.ScanContext{}, i, &v); err != nil {
			v = unread{err}
		}
		row[i] = v
	}
	r.row, r.held = row, false
}
