package conn

import (
	"database/sql/driver"
	"reflect"
)

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
