package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// keptStmt is a text that came to a connection for leases, and its statement once it
// has come often enough.
type keptStmt struct {
	text string
	uses int
	stmt driver.Stmt // nil until it is prepared; a driver.StmtExecContext
}

const (
	// prepareAfter is how often a text comes before it is prepared, which is another
	// round trip: most connections of a process that takes a lease now and then, or
	// waits for one, see it less often.
	prepareAfter = 2
	// maxKept bounds what a connection has prepared: the server's max_prepared_stmt_count
	// is for all who use it.
	maxKept = 8
)

// RunPrepared implements dialect.Preparer. The statements go with the connection.
func (c *leaseConn) RunPrepared(ctx context.Context, query string, args []driver.Value) (id int64, sent bool, err error) {
	stmt, err := c.keptStmt(ctx, query)
	if stmt == nil || err != nil {
		return 0, false, err
	}
	var res driver.Result
	if ctx.Done() == nil && c.dc == c.real {
		//lint:ignore SA1019 the driver's ExecContext comes to the same, after two copies of the arguments
		res, err = stmt.Exec(args)
	} else {
		named := make([]driver.NamedValue, len(args))
		for i, arg := range args {
			named[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
		}
		res, err = stmt.(driver.StmtExecContext).ExecContext(ctx, named)
	}
	if err != nil {
		var answer *mysql.MySQLError
		if errors.As(err, &answer) && (answer.Number == errNeedReprepare || answer.Number == errUnknownStmt) {
			c.unprepared = true
			return 0, false, nil
		}
		return 0, true, err
	}
	id, err = res.LastInsertId()
	return id, true, err
}

// The server's errors of a statement that it does not know any more, or cannot keep: it
// was not run.
const (
	errNeedReprepare = 1615
	errUnknownStmt   = 1243
)

// keptStmt is the prepared statement of the text; nil if there is none.
func (c *leaseConn) keptStmt(ctx context.Context, query string) (driver.Stmt, error) {
	if c.unprepared {
		return nil, nil
	}
	i := slices.IndexFunc(c.kept, func(k keptStmt) bool { return k.text == query })
	if i < 0 {
		if len(c.kept) < maxKept {
			c.kept = append(c.kept, keptStmt{text: query, uses: 1})
		}
		return nil, nil
	}
	k := &c.kept[i]
	if k.stmt != nil {
		return k.stmt, nil
	}
	if k.uses++; k.uses <= prepareAfter {
		return nil, nil
	}
	stmt, err := c.prepare(ctx, query)
	if err != nil {
		c.unprepared = true // there are too many of them, or a proxy takes none
		var answer *mysql.MySQLError
		if errors.As(err, &answer) {
			return nil, nil
		}
		return nil, err
	}
	if _, ok := stmt.(driver.StmtExecContext); !ok {
		c.unprepared = true
		return nil, stmt.Close()
	}
	k.stmt = stmt
	return stmt, nil
}
