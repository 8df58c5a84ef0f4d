package conn

import (
	"database/sql/driver"
	"reflect"
)

// columnType is what a driver tells of a column. Its zero answers, but for
// scanType, are what database/sql assumes of a driver that does not tell.
type columnType struct {
	scanType         reflect.Type
	databaseType     string
	length           int64
	hasLength        bool
	nullable         bool
	hasNullable      bool
	precision, scale int64
	hasDecimal       bool
}

func columnTypeOf(inner driver.Rows, i int) columnType {
	col := columnType{scanType: reflect.TypeFor[any]()}
	if r, ok := inner.(driver.RowsColumnTypeScanType); ok {
		col.scanType = r.ColumnTypeScanType(i)
	}
	if r, ok := inner.(driver.RowsColumnTypeDatabaseTypeName); ok {
		col.databaseType = r.ColumnTypeDatabaseTypeName(i)
	}
	if r, ok := inner.(driver.RowsColumnTypeLength); ok {
		col.length, col.hasLength = r.ColumnTypeLength(i)
	}
	if r, ok := inner.(driver.RowsColumnTypeNullable); ok {
		col.nullable, col.hasNullable = r.ColumnTypeNullable(i)
	}
	if r, ok := inner.(driver.RowsColumnTypePrecisionScale); ok {
		col.precision, col.scale, col.hasDecimal = r.ColumnTypePrecisionScale(i)
	}
	return col
}

// rows claims every optional interface: where the inner Rows has none, its
// answer is the one that database/sql assumes.
var (
	_ driver.RowsNextResultSet              = (*rows)(nil)
	_ driver.RowsColumnTypeScanType         = (*rows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*rows)(nil)
	_ driver.RowsColumnTypeLength           = (*rows)(nil)
	_ driver.RowsColumnTypeNullable         = (*rows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*rows)(nil)
)

// column is what is known of a column of the current result set.
func (r *rows) column(i int) columnType {
	col := columnType{scanType: reflect.TypeFor[any]()}
	_ = r.under(func() error {
		if len(r.ahead) > 0 {
			col = r.ahead[0].types[i]
		} else if r.inner != nil {
			col = columnTypeOf(r.inner, i)
		}
		return nil
	})
	return col
}

// ColumnTypeScanType implements driver.RowsColumnTypeScanType.
func (r *rows) ColumnTypeScanType(i int) reflect.Type { return r.column(i).scanType }

// ColumnTypeDatabaseTypeName implements driver.RowsColumnTypeDatabaseTypeName.
func (r *rows) ColumnTypeDatabaseTypeName(i int) string { return r.column(i).databaseType }

// ColumnTypeLength implements driver.RowsColumnTypeLength.
func (r *rows) ColumnTypeLength(i int) (length int64, ok bool) {
	col := r.column(i)
	return col.length, col.hasLength
}

// ColumnTypeNullable implements driver.RowsColumnTypeNullable.
func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	col := r.column(i)
	return col.nullable, col.hasNullable
}

// ColumnTypePrecisionScale implements driver.RowsColumnTypePrecisionScale.
func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	col := r.column(i)
	return col.precision, col.scale, col.hasDecimal
}
