//go:build !go1.27

package conn

import "database/sql/driver"

// wrapRows gives database/sql the result set.
func wrapRows(r *rows) driver.Rows { return r }

// inPlace is nothing before Go 1.27.
//
//lint:ignore U1000 rows_go127.go uses its own
type inPlace struct{}

// keepRow saves the current row of an inner Rows that is scanned in place;
// before Go 1.27 there is none.
func (r *rows) keepRow() {}
