package conn_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// cancelCase is a call that is cancelled.
type cancelCase struct {
	name string
	// watched: database/sql itself waits for the end of the context, because of
	// something that was begun under it before the call.
	watched bool
	// holds is how many connections stay in use after the call.
	holds int
	// again: the pool is used after the call, and so has replaced a dead connection.
	again bool
	call  func(*cancelRun)
}

// cancelRun is one run of a case.
type cancelRun struct {
	t   *testing.T
	ctx context.Context // the one that is cancelled
	db  *sql.DB
	at  func() // comes just before the call

	errs    []error
	use     func() // of what the call brought, after the cancellation
	cleanup []func()
}

func (x *cancelRun) note(err error) { x.errs = append(x.errs, err) }

// later closes something whose error counts.
func (x *cancelRun) later(f func() error) {
	x.cleanup = append(x.cleanup, func() { x.note(f()) })
}

func (x *cancelRun) begin(ctx context.Context) *sql.Tx {
	tx, err := x.db.BeginTx(ctx, nil)
	require.NoError(x.t, err)
	return tx
}

func cancelCases(s *dbtest.Server) []cancelCase {
	bg := context.Background()
	with := "SELECT CAST(? AS SIGNED)"
	many := "SELECT REPEAT('x', 1000) FROM information_schema.COLLATIONS a, information_schema.COLLATIONS b LIMIT 20000"
	if !s.IsMySQL() {
		with = "SELECT $1::int"
		many = "SELECT repeat('x', 1000) FROM generate_series(1, 20000)"
	}
	// all reads a result set to its end.
	all := func(x *cancelRun, rows *sql.Rows) {
		n := 0
		for rows.Next() {
			n++
		}
		x.note(rows.Err())
		x.note(rows.Close())
	}
	return []cancelCase{
		{name: "Query", call: func(x *cancelRun) {
			x.at()
			rows, err := x.db.QueryContext(x.ctx, "SELECT 1")
			x.note(err)
			if err == nil {
				x.use = func() { all(x, rows) }
			}
		}},
		{name: "Query with a parameter", call: func(x *cancelRun) {
			x.at()
			rows, err := x.db.QueryContext(x.ctx, with, 1)
			x.note(err)
			if err == nil {
				x.use = func() { all(x, rows) }
			}
		}},
		{name: "QueryRow", call: func(x *cancelRun) {
			var one int
			x.at()
			x.note(x.db.QueryRowContext(x.ctx, "SELECT 1").Scan(&one))
		}},
		{name: "Rows.Next", watched: true, call: func(x *cancelRun) {
			rows, err := x.db.QueryContext(x.ctx, many)
			require.NoError(x.t, err)
			require.True(x.t, rows.Next())
			x.at()
			all(x, rows)
		}},
		{name: "Exec", call: func(x *cancelRun) {
			x.at()
			_, err := x.db.ExecContext(x.ctx, "SELECT 1")
			x.note(err)
		}},
		{name: "Exec with a parameter", call: func(x *cancelRun) {
			x.at()
			_, err := x.db.ExecContext(x.ctx, with, 1)
			x.note(err)
		}},
		{name: "Exec that has to dial", again: true, call: func(x *cancelRun) {
			x.db.SetMaxIdleConns(0)
			x.db.SetMaxIdleConns(2)
			x.at()
			_, err := x.db.ExecContext(x.ctx, "SELECT 1")
			x.note(err)
		}},
		{name: "Exec that the server refuses", call: func(x *cancelRun) {
			x.at()
			_, err := x.db.ExecContext(x.ctx, "SELECT FROM WHERE")
			x.note(err)
		}},
		{name: "Prepare", call: func(x *cancelRun) {
			x.at()
			stmt, err := x.db.PrepareContext(x.ctx, with)
			x.note(err)
			if err == nil {
				x.use = func() {
					_, err := stmt.ExecContext(bg, 1)
					x.note(err)
					x.note(stmt.Close())
				}
			}
		}},
		{name: "Stmt.Exec", again: true, call: func(x *cancelRun) {
			stmt, err := x.db.PrepareContext(bg, with)
			require.NoError(x.t, err)
			x.later(stmt.Close)
			x.at()
			_, err = stmt.ExecContext(x.ctx, 1)
			x.note(err)
			x.use = func() {
				_, err := stmt.ExecContext(bg, 1)
				x.note(err)
			}
		}},
		{name: "Stmt.Query", call: func(x *cancelRun) {
			stmt, err := x.db.PrepareContext(bg, with)
			require.NoError(x.t, err)
			x.later(stmt.Close)
			x.at()
			rows, err := stmt.QueryContext(x.ctx, 1)
			x.note(err)
			if err == nil {
				x.use = func() { all(x, rows) }
			}
		}},
		{name: "Begin", call: func(x *cancelRun) {
			x.at()
			tx, err := x.db.BeginTx(x.ctx, nil)
			x.note(err)
			if err == nil {
				x.use = func() {
					_, err := tx.ExecContext(bg, "SELECT 1")
					x.note(err)
					x.note(tx.Rollback())
				}
			}
		}},
		{name: "Begin with an isolation level", call: func(x *cancelRun) {
			x.at()
			tx, err := x.db.BeginTx(x.ctx, &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true})
			x.note(err)
			if err == nil {
				x.use = func() { x.note(tx.Commit()) }
			}
		}},
		{name: "Commit", watched: true, call: func(x *cancelRun) {
			tx := x.begin(x.ctx)
			x.at()
			x.note(tx.Commit())
		}},
		{name: "Rollback", watched: true, call: func(x *cancelRun) {
			tx := x.begin(x.ctx)
			x.at()
			x.note(tx.Rollback())
		}},
		{name: "Exec in a transaction", holds: 1, call: func(x *cancelRun) {
			tx := x.begin(bg)
			x.later(tx.Commit)
			x.at()
			_, err := tx.ExecContext(x.ctx, "SELECT 1")
			x.note(err)
			_, err = tx.ExecContext(bg, "SELECT 1")
			x.note(err)
		}},
		{name: "Exec in a transaction under the context", watched: true, call: func(x *cancelRun) {
			tx := x.begin(x.ctx)
			x.at()
			_, err := tx.ExecContext(x.ctx, "SELECT 1")
			x.note(err)
			x.use = func() { x.note(tx.Commit()) }
		}},
		{name: "Stmt.Exec in a transaction", holds: 1, call: func(x *cancelRun) {
			tx := x.begin(bg)
			stmt, err := tx.PrepareContext(bg, with)
			require.NoError(x.t, err)
			x.later(tx.Rollback)
			x.at()
			_, err = stmt.ExecContext(x.ctx, 1)
			x.note(err)
		}},
		{name: "Query on a Conn", holds: 1, call: func(x *cancelRun) {
			c, err := x.db.Conn(bg)
			require.NoError(x.t, err)
			x.later(c.Close)
			x.at()
			rows, err := c.QueryContext(x.ctx, "SELECT 1")
			x.note(err)
			if err == nil {
				all(x, rows)
			}
			_, err = c.ExecContext(bg, "SELECT 1")
			x.note(err)
		}},
		{name: "Ping", call: func(x *cancelRun) {
			x.at()
			x.note(x.db.PingContext(x.ctx))
		}},
		{name: "Conn", holds: 1, call: func(x *cancelRun) {
			x.at()
			c, err := x.db.Conn(x.ctx)
			x.note(err)
			if err == nil {
				x.use = func() {
					_, err := c.ExecContext(bg, "SELECT 1")
					x.note(err)
					x.note(c.Close())
				}
			}
		}},
	}
}
