package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"

	"github.com/jackc/pgx/v5"
)

// phys is one connection of the inner driver. Its optional interfaces are
// looked up once, with the answers that database/sql would assume where there
// are none.
type phys struct {
	dc   driver.Conn // what statements go to: the driver's own, or an interceptor's before it
	real driver.Conn // the driver's own
	pg   *pgx.Conn   // nil unless it is pgx's

	queryer   driver.QueryerContext
	execer    driver.ExecerContext
	preparer  driver.ConnPrepareContext
	beginner  driver.ConnBeginTx
	pinger    driver.Pinger
	resetter  driver.SessionResetter
	validator driver.Validator
	checker   driver.NamedValueChecker
}

func newPhys(dc driver.Conn) phys {
	p := phys{dc: dc, real: dc}
	if w, ok := dc.(interface{ Real() driver.Conn }); ok {
		p.real = w.Real()
	}
	if c, ok := p.real.(interface{ Conn() *pgx.Conn }); ok {
		p.pg = c.Conn()
	}
	p.queryer, p.execer = queryerOf(dc), execerOf(dc)
	p.preparer, _ = dc.(driver.ConnPrepareContext)
	p.beginner, _ = dc.(driver.ConnBeginTx)
	p.pinger, _ = dc.(driver.Pinger)
	// An interceptor's wrapper may claim or hide these wrongly.
	p.resetter, _ = p.real.(driver.SessionResetter)
	p.validator, _ = p.real.(driver.Validator)
	p.checker, _ = p.real.(driver.NamedValueChecker)
	return p
}

func (p *phys) query(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if p.queryer == nil {
		return nil, driver.ErrSkip
	}
	return p.queryer.QueryContext(ctx, query, args)
}

func (p *phys) exec(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if p.execer == nil {
		return nil, driver.ErrSkip
	}
	return p.execer.ExecContext(ctx, query, args)
}

func (p *phys) prepare(ctx context.Context, query string) (driver.Stmt, error) {
	if p.preparer != nil {
		return p.preparer.PrepareContext(ctx, query)
	}
	stmt, err := p.dc.Prepare(query)
	if err == nil && ctx.Err() != nil {
		_ = stmt.Close()
		return nil, ctx.Err()
	}
	return stmt, err
}

func (p *phys) begin(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if p.beginner != nil {
		return p.beginner.BeginTx(ctx, opts)
	}
	if opts.Isolation != driver.IsolationLevel(sql.LevelDefault) {
		return nil, errors.New("sql: driver does not support non-default isolation level")
	}
	if opts.ReadOnly {
		return nil, errors.New("sql: driver does not support read-only transactions")
	}
	//lint:ignore SA1019 the only way that such a driver offers
	tx, err := p.dc.Begin()
	if err == nil && ctx.Err() != nil {
		_ = tx.Rollback()
		return nil, ctx.Err()
	}
	return tx, err
}

func (p *phys) ping(ctx context.Context) error {
	if p.pinger == nil {
		return nil
	}
	return p.pinger.Ping(ctx)
}

// QueryRow implements dialect.Querier.
func (p *phys) QueryRow(ctx context.Context, query string, args ...driver.NamedValue) ([]driver.Value, error) {
	return p.row(ctx, query, args)
}

// QuerySimple implements dialect.Querier: pgx would prepare and keep the text.
func (p *phys) QuerySimple(ctx context.Context, query string) ([]driver.Value, error) {
	return p.row(ctx, query, p.unprepared())
}

// Exec implements dialect.Querier.
func (p *phys) Exec(ctx context.Context, query string) error {
	_, err := p.exec(ctx, query, p.simple())
	if errors.Is(err, driver.ErrSkip) {
		return errors.New("lockdb: the inner driver has no ExecerContext")
	}
	return err
}

// Run implements dialect.Querier.
func (p *phys) Run(ctx context.Context, query string, args ...driver.NamedValue) (lastInsertID, affected int64, err error) {
	res, err := p.exec(ctx, query, args)
	if errors.Is(err, driver.ErrSkip) {
		return 0, 0, errors.New("lockdb: the inner driver has no ExecerContext that takes such a statement")
	}
	if err != nil {
		return 0, 0, err
	}
	if p.pg == nil {
		if lastInsertID, err = res.LastInsertId(); err != nil {
			lastInsertID = 0 // a driver that has none, as lib/pq
		}
	}
	affected, err = res.RowsAffected()
	return lastInsertID, affected, err
}

// QueryAll implements dialect.Querier.
func (p *phys) QueryAll(ctx context.Context, query string, args ...driver.NamedValue) (all [][]driver.Value, err error) {
	err = p.each(ctx, query, args, func(row []driver.Value) bool {
		all = append(all, row)
		return true
	})
	return all, err
}

// QueryScript implements dialect.Querier. database/sql's interface gives only
// the first statement's result.
func (p *phys) QueryScript(ctx context.Context, script string) ([]driver.Value, error) {
	if p.pg == nil {
		return nil, errors.New("lockdb: the inner driver is not pgx, whose connection takes scripts")
	}
	results, err := p.pg.PgConn().Exec(ctx, script).ReadAll()
	if err != nil || len(results) == 0 {
		return nil, err
	}
	last := results[len(results)-1]
	if last.Err != nil || len(last.Rows) == 0 {
		return nil, last.Err
	}
	row := make([]driver.Value, len(last.Rows[0]))
	for i, v := range last.Rows[0] {
		if v != nil {
			row[i] = string(v)
		}
	}
	return row, nil
}

// HandshakePID implements dialect.Querier.
func (p *phys) HandshakePID() uint32 {
	if p.pg == nil {
		return 0
	}
	return p.pg.PgConn().PID()
}

func (p *phys) simple() []driver.NamedValue {
	if p.pg == nil {
		return nil
	}
	return []driver.NamedValue{{Ordinal: 1, Value: pgx.QueryExecModeSimpleProtocol}}
}

// unprepared is simple for a query: pgx sends none in the simple protocol where
// backslashes in its values would be escapes, or its text in another encoding.
func (p *phys) unprepared() []driver.NamedValue {
	if p.pg != nil {
		c := p.pg.PgConn()
		if c.ParameterStatus("standard_conforming_strings") != "on" || c.ParameterStatus("client_encoding") != "UTF8" {
			return []driver.NamedValue{{Ordinal: 1, Value: pgx.QueryExecModeExec}}
		}
	}
	return p.simple()
}

func (p *phys) row(ctx context.Context, query string, args []driver.NamedValue) (row []driver.Value, err error) {
	err = p.each(ctx, query, args, func(r []driver.Value) bool {
		row = r
		return false
	})
	return row, err
}

// QueryRows implements dialect.Querier.
func (p *phys) QueryRows(ctx context.Context, query string) (column []driver.Value, err error) {
	err = p.each(ctx, query, p.unprepared(), func(row []driver.Value) bool {
		column = append(column, row[0])
		return true
	})
	return column, err
}

// each reads the rows of a result until f has enough.
func (p *phys) each(ctx context.Context, query string, args []driver.NamedValue, f func([]driver.Value) bool) error {
	rows, err := p.query(ctx, query, args)
	if errors.Is(err, driver.ErrSkip) {
		return errors.New("lockdb: the inner driver has no QueryerContext that takes such a statement")
	}
	if err != nil {
		return err
	}
	for more := true; more && err == nil; {
		row := make([]driver.Value, len(rows.Columns()))
		if err = rows.Next(row); err == nil {
			for i, v := range row {
				if b, ok := v.([]byte); ok { // valid only until the next call
					row[i] = string(b)
				}
			}
			more = f(row)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	return err
}
