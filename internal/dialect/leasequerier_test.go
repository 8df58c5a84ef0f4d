package dialect_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dialect"
)

// querier is a session of the bare driver, which the test may also use by itself.
type querier struct {
	*sql.Conn
	pg *pgx.Conn
	dc driver.Conn

	prepares bool
	kept     map[string]driver.Stmt
}

var (
	_ dialect.Querier  = (*querier)(nil)
	_ dialect.Preparer = (*querier)(nil)
)

// session opens a session. The driver's connection is used outside of Conn's own lock: a test has
// one goroutine a session.
func session(t testing.TB, driverName, dsn string) *querier {
	t.Helper()
	db, err := sql.Open(driverName, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	c, err := db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	q := &querier{Conn: c}
	require.NoError(t, c.Raw(func(dc any) error {
		q.dc = dc.(driver.Conn)
		if w, ok := dc.(interface{ Conn() *pgx.Conn }); ok {
			q.pg = w.Conn()
		}
		return nil
	}))
	return q
}

func (q *querier) simple() []driver.NamedValue {
	if q.pg == nil {
		return nil
	}
	return []driver.NamedValue{{Ordinal: 1, Value: pgx.QueryExecModeSimpleProtocol}}
}

func (q *querier) QueryAll(ctx context.Context, query string, args ...driver.NamedValue) (all [][]driver.Value, err error) {
	rows, err := q.dc.(driver.QueryerContext).QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for {
		row := make([]driver.Value, len(rows.Columns()))
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		for i, v := range row {
			if b, ok := v.([]byte); ok {
				row[i] = string(b)
			}
		}
		all = append(all, row)
	}
}

func (q *querier) QueryRow(ctx context.Context, query string, args ...driver.NamedValue) ([]driver.Value, error) {
	all, err := q.QueryAll(ctx, query, args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

func (q *querier) QuerySimple(ctx context.Context, query string) ([]driver.Value, error) {
	return q.QueryRow(ctx, query, q.simple()...)
}

func (q *querier) QueryRows(ctx context.Context, query string) (column []driver.Value, err error) {
	all, err := q.QueryAll(ctx, query, q.simple()...)
	for _, row := range all {
		column = append(column, row[0])
	}
	return column, err
}

func (q *querier) QueryScript(ctx context.Context, script string) ([]driver.Value, error) {
	results, err := q.pg.PgConn().Exec(ctx, script).ReadAll()
	if err != nil {
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

func (q *querier) Exec(ctx context.Context, query string) error {
	_, err := q.dc.(driver.ExecerContext).ExecContext(ctx, query, q.simple())
	return err
}

func (q *querier) Run(ctx context.Context, query string, args ...driver.NamedValue) (id, affected int64, err error) {
	res, err := q.dc.(driver.ExecerContext).ExecContext(ctx, query, args)
	if err != nil {
		return 0, 0, err
	}
	if q.pg == nil {
		if id, err = res.LastInsertId(); err != nil {
			return 0, 0, err
		}
	}
	affected, err = res.RowsAffected()
	return id, affected, err
}

func (q *querier) RunPrepared(ctx context.Context, query string, args []driver.Value) (id int64, sent bool, err error) {
	if !q.prepares {
		return 0, false, nil
	}
	stmt := q.kept[query]
	if stmt == nil {
		if stmt, err = q.dc.(driver.ConnPrepareContext).PrepareContext(ctx, query); err != nil {
			return 0, true, err
		}
		if q.kept == nil {
			q.kept = make(map[string]driver.Stmt)
		}
		q.kept[query] = stmt
	}
	res, err := stmt.(driver.StmtExecContext).ExecContext(ctx, values(args...))
	if err != nil {
		return 0, true, err
	}
	id, err = res.LastInsertId()
	return id, true, err
}

func (q *querier) HandshakePID() uint32 {
	if q.pg == nil {
		return 0
	}
	return q.pg.PgConn().PID()
}
