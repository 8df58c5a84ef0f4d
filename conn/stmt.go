//lint:file-ignore SA1019 older drivers have what database/sql asks for no more

package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"

	"github.com/lockdb/lockdb/internal/sqlscan"
)

// stmt is a prepared statement. It follows the routing of its calls: it is
// prepared again where it is to run. One is embedded in each conn, and another
// kept for use again, so that wrapping costs nothing in the usual cases.
type stmt struct {
	c     *conn
	query string
	sees  sqlscan.Verdict // what it may do with session locks
	db    bool            // it may have been prepared on the *sql.DB itself
	first driver.Stmt     // as prepared first: answers NumInput and the like
	own   driver.Stmt     // prepared on the conn's own session, nil if it is not
	lent  []lentStmt      // prepared on lock sessions
	used  bool            // the embedded one is taken

	before, after *stmt // those that have own, as a list from the conn's prepared
}

type lentStmt struct {
	sess *session
	*prepared
}

// The combinations of optional interfaces of an inner Stmt: database/sql asks
// by them. All are pointers in the shape of structs, which cost nothing.
type (
	checkerStmt          struct{ *stmt }
	converterStmt        struct{ *stmt }
	checkerConverterStmt struct{ *stmt }
)

var (
	_ driver.StmtExecContext   = (*stmt)(nil)
	_ driver.StmtQueryContext  = (*stmt)(nil)
	_ driver.NamedValueChecker = checkerStmt{}
	_ driver.ColumnConverter   = converterStmt{}
	_ driver.NamedValueChecker = checkerConverterStmt{}
	_ driver.ColumnConverter   = checkerConverterStmt{}
)

// CheckNamedValue implements driver.NamedValueChecker.
func (s checkerStmt) CheckNamedValue(v *driver.NamedValue) error {
	return s.first.(driver.NamedValueChecker).CheckNamedValue(v)
}

// ColumnConverter implements driver.ColumnConverter.
func (s converterStmt) ColumnConverter(i int) driver.ValueConverter {
	return s.first.(driver.ColumnConverter).ColumnConverter(i)
}

// CheckNamedValue implements driver.NamedValueChecker.
func (s checkerConverterStmt) CheckNamedValue(v *driver.NamedValue) error {
	return s.first.(driver.NamedValueChecker).CheckNamedValue(v)
}

// ColumnConverter implements driver.ColumnConverter.
func (s checkerConverterStmt) ColumnConverter(i int) driver.ValueConverter {
	return s.first.(driver.ColumnConverter).ColumnConverter(i)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	sees := c.seesRaw(query)
	if sees == 0 && c.passes() {
		return c.prepareOwn(ctx, query, sees, false)
	}
	// What a *sql.Tx has prepared of a *sql.Stmt stays with that, which a program can
	// use on the *sql.DB afterwards.
	fromDB := sees != 0 && !within("(*Conn).")
	if sees != 0 {
		if err := c.beforeRaw(ctx, query, nil, sees, false); err != nil { // which lock it is for shows when it runs
			return nil, err
		}
	}
	sc, onLock, err := c.route(ctx)
	if err != nil {
		return nil, err
	}
	if onLock {
		s := &stmt{c: c, query: query, sees: sees, db: fromDB}
		err := sc.run(ctx, "a statement", false, func(ctx context.Context, sess *session) (err error) {
			s.first, err = s.on(ctx, sess)
			return err
		})
		if err != nil {
			return nil, neverBad(ctx, err)
		}
		return s.as(), nil
	}
	return c.prepareOwn(ctx, query, sees, fromDB)
}

// Prepare implements driver.Conn.
func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (s *stmt) as() driver.Stmt {
	_, checks := s.first.(driver.NamedValueChecker)
	_, converts := s.first.(driver.ColumnConverter)
	switch {
	case checks && converts:
		return checkerConverterStmt{s}
	case checks:
		return checkerStmt{s}
	case converts:
		return converterStmt{s}
	}
	return s
}

// NumInput implements driver.Stmt.
func (s *stmt) NumInput() int { return s.first.NumInput() }

// Close implements driver.Stmt. It can run under database/sql's db.mu; what is
// prepared on lock sessions is closed when they have time.
func (s *stmt) Close() error {
	for _, l := range s.lent {
		l.sess.release(l.prepared)
	}
	own, c := s.gives(), s.c
	*s = stmt{}
	if s != &c.stmt {
		c.spare = s
	}
	if own == nil {
		return nil
	}
	return own.Close()
}

// on is the statement as prepared on a lock's session, under its io.
func (s *stmt) on(ctx context.Context, sess *session) (driver.Stmt, error) {
	for _, l := range s.lent {
		if l.sess == sess {
			return l.inner, nil
		}
	}
	p, err := sess.share(ctx, s.query)
	if err != nil {
		return nil, err
	}
	s.lent = slices.DeleteFunc(s.lent, func(l lentStmt) bool { return l.sess.isClosed() })
	s.lent = append(s.lent, lentStmt{sess, p})
	return p.inner, nil
}

// passes is conn.passes for a statement that is prepared.
func (s *stmt) passes() bool { return s.sees == 0 && s.own != nil && s.c.passes() }

// ExecContext implements driver.StmtExecContext.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	if s.passes() {
		if res, err = stmtExec(ctx, s.own, args); err != nil {
			err = s.c.keeper.cutOff(ctx, err)
		}
		return res, err
	}
	if s.sees != 0 {
		if err := s.c.beforeRaw(ctx, s.query, args, s.sees, s.db); err != nil {
			return nil, err
		}
	}
	sc, onLock, err := s.c.route(ctx)
	if err != nil {
		return nil, err
	}
	if onLock {
		if err := sc.guard(s.query, args); err != nil {
			return nil, err
		}
		err = sc.run(ctx, "a statement", false, func(ctx context.Context, sess *session) error {
			inner, err := s.on(ctx, sess)
			if err != nil {
				return err
			}
			res, err = stmtExec(ctx, inner, args)
			return err
		})
		return res, neverBad(ctx, err)
	}
	inner, err := s.here(ctx)
	if err != nil {
		return nil, err
	}
	if s.sees != 0 {
		return s.c.rawExec(s.query, args,
			func() (driver.Result, error) { return stmtExec(ctx, inner, args) },
			func() (driver.Rows, error) { return stmtQuery(ctx, inner, args) })
	}
	res, err = stmtExec(ctx, inner, args)
	return res, s.c.keeper.cutOff(ctx, err)
}

// QueryContext implements driver.StmtQueryContext.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if s.passes() {
		rows, err := stmtQuery(ctx, s.own, args)
		if err != nil {
			err = s.c.keeper.cutOff(ctx, err)
		}
		return rows, err
	}
	if s.sees != 0 {
		if err := s.c.beforeRaw(ctx, s.query, args, s.sees, s.db); err != nil {
			return nil, err
		}
	}
	sc, onLock, err := s.c.route(ctx)
	if err != nil {
		return nil, err
	}
	if onLock {
		if err := sc.guard(s.query, args); err != nil {
			return nil, err
		}
		return sc.rows(ctx, func(ctx context.Context, sess *session) (driver.Rows, error) {
			inner, err := s.on(ctx, sess)
			if err != nil {
				return nil, err
			}
			return stmtQuery(ctx, inner, args)
		})
	}
	inner, err := s.here(ctx)
	if err != nil {
		return nil, err
	}
	if s.sees != 0 {
		return s.c.rawQuery(s.query, args, func() (driver.Rows, error) { return stmtQuery(ctx, inner, args) })
	}
	rows, err := stmtQuery(ctx, inner, args)
	return rows, s.c.keeper.cutOff(ctx, err)
}

// Exec implements driver.Stmt; database/sql calls ExecContext.
func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

// Query implements driver.Stmt; database/sql calls QueryContext.
func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

func stmtExec(ctx context.Context, inner driver.Stmt, args []driver.NamedValue) (driver.Result, error) {
	if e, ok := inner.(driver.StmtExecContext); ok {
		return e.ExecContext(ctx, args)
	}
	values, err := unnamed(ctx, args)
	if err != nil {
		return nil, err
	}
	return inner.Exec(values)
}

func stmtQuery(ctx context.Context, inner driver.Stmt, args []driver.NamedValue) (driver.Rows, error) {
	if q, ok := inner.(driver.StmtQueryContext); ok {
		return q.QueryContext(ctx, args)
	}
	values, err := unnamed(ctx, args)
	if err != nil {
		return nil, err
	}
	return inner.Query(values)
}

func named(args []driver.Value) []driver.NamedValue {
	out := make([]driver.NamedValue, len(args))
	for i, v := range args {
		out[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return out
}

// unnamed is what database/sql does for a driver that knows no contexts, to
// the words of its errors.
func unnamed(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, v := range args {
		if v.Name != "" {
			return nil, errors.New("sql: driver does not support the use of Named Parameters")
		}
		values[i] = v.Value
	}
	return values, ctx.Err()
}
