//lint:file-ignore SA1019 older drivers have what database/sql asks for no more

package conn

import (
	"context"
	"database/sql/driver"
)

// legacyExecer and legacyQueryer are the interfaces that drivers had before
// there were contexts, used as database/sql uses them.
type (
	legacyExecer  struct{ driver.Execer }
	legacyQueryer struct{ driver.Queryer }
)

func execerOf(dc driver.Conn) driver.ExecerContext {
	switch e := dc.(type) {
	case driver.ExecerContext:
		return e
	case driver.Execer:
		return legacyExecer{e}
	}
	return nil
}

func queryerOf(dc driver.Conn) driver.QueryerContext {
	switch q := dc.(type) {
	case driver.QueryerContext:
		return q
	case driver.Queryer:
		return legacyQueryer{q}
	}
	return nil
}

func (l legacyExecer) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	values, err := unnamed(ctx, args)
	if err != nil {
		return nil, err
	}
	return l.Exec(query, values)
}

func (l legacyQueryer) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	values, err := unnamed(ctx, args)
	if err != nil {
		return nil, err
	}
	return l.Query(query, values)
}
