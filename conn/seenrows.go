package conn

import (
	"database/sql/driver"
	"io"
	"reflect"
)

// seenRows is a result whose first row was read to see it.
type seenRows struct {
	driver.Rows
	row  []driver.Value
	err  error // what came instead of it
	read bool
}

func newSeenRows(inner driver.Rows) *seenRows {
	r := &seenRows{Rows: inner, row: make([]driver.Value, len(inner.Columns()))}
	if r.err = inner.Next(r.row); r.err != nil {
		r.row = nil
	}
	cloneBytes(r.row)
	return r
}

// Next implements driver.Rows.
func (r *seenRows) Next(dest []driver.Value) error {
	switch {
	case r.read && r.err != nil:
		return r.err
	case r.read:
		return r.Rows.Next(dest)
	}
	r.read = true
	copy(dest, r.row)
	return r.err
}

// NextResultSet implements driver.RowsNextResultSet.
func (r *seenRows) NextResultSet() error {
	more, ok := r.Rows.(driver.RowsNextResultSet)
	if !ok {
		return io.EOF
	}
	return more.NextResultSet()
}

// HasNextResultSet implements driver.RowsNextResultSet.
func (r *seenRows) HasNextResultSet() bool { return hasNext(r.Rows) }

// seenRows claims every optional interface but Go 1.27's, as rows does.
var (
	_ driver.RowsNextResultSet              = (*seenRows)(nil)
	_ driver.RowsColumnTypeScanType         = (*seenRows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*seenRows)(nil)
	_ driver.RowsColumnTypeLength           = (*seenRows)(nil)
	_ driver.RowsColumnTypeNullable         = (*seenRows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*seenRows)(nil)
)

// ColumnTypeScanType implements driver.RowsColumnTypeScanType.
func (r *seenRows) ColumnTypeScanType(i int) reflect.Type { return columnTypeOf(r.Rows, i).scanType }

// ColumnTypeDatabaseTypeName implements driver.RowsColumnTypeDatabaseTypeName.
func (r *seenRows) ColumnTypeDatabaseTypeName(i int) string {
	return columnTypeOf(r.Rows, i).databaseType
}

// ColumnTypeLength implements driver.RowsColumnTypeLength.
func (r *seenRows) ColumnTypeLength(i int) (length int64, ok bool) {
	col := columnTypeOf(r.Rows, i)
	return col.length, col.hasLength
}

// ColumnTypeNullable implements driver.RowsColumnTypeNullable.
func (r *seenRows) ColumnTypeNullable(i int) (nullable, ok bool) {
	col := columnTypeOf(r.Rows, i)
	return col.nullable, col.hasNullable
}

// ColumnTypePrecisionScale implements driver.RowsColumnTypePrecisionScale.
func (r *seenRows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	col := columnTypeOf(r.Rows, i)
	return col.precision, col.scale, col.hasDecimal
}
