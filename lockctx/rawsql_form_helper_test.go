package lockctx_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// preparedSQL is rawSQL with placeholders: take has args, release the first of them.
type preparedSQL struct {
	rawSQL
	args []any
}

func preparedFor(t testing.TB, s *dbtest.Server, key string) preparedSQL {
	if s.IsMySQL() {
		return preparedSQL{rawSQL{take: "SELECT GET_LOCK(?, ?)", release: "SELECT RELEASE_LOCK(?)"}, []any{lockName(t, key), 0}}
	}
	return preparedSQL{rawSQL{take: "SELECT pg_try_advisory_lock($1)", release: "SELECT pg_advisory_unlock($1)"}, []any{lockID(t, key)}}
}

// rawForm is a way in which programs send lock statements. The lock that it takes
// has the name or the numbers of key, so that an outsider finds it.
type rawForm struct {
	name          string
	take, release func(context.Context, *sql.DB) error
	pair          bool // a PostgreSQL lock of two int4
}

// rawForms are the ways of a server. They fail if the server refuses.
func rawForms(t testing.TB, s *dbtest.Server, key string) []rawForm {
	text, prepared := rawSQLFor(t, s, key), preparedFor(t, s, key)
	forms := []rawForm{
		{name: "QueryRow", take: byRow(text.take), release: byRow(text.release)},
		{name: "Exec", take: byExec(text.take), release: byExec(text.release)},
		{name: "arguments", take: byRow(prepared.take, prepared.args...), release: byRow(prepared.release, prepared.args[0])},
		{name: "arguments of Exec", take: byExec(prepared.take, prepared.args...), release: byExec(prepared.release, prepared.args[0])},
		{name: "Prepare", take: byStmt(prepared.take, prepared.args...), release: byStmt(prepared.release, prepared.args[0])},
		{name: "a late Close", take: byRows(text.take), release: byRows(text.release)},
	}
	if s.IsMySQL() {
		name := lockName(t, key)
		return append(forms,
			rawForm{name: "a timeout", take: byRow(text.block), release: byRow("SELECT RELEASE_ALL_LOCKS()")},
			rawForm{name: "DO", take: byExec("DO GET_LOCK('" + name + "', 0)"), release: byExec("DO RELEASE_LOCK('" + name + "')")},
			rawForm{name: "a variable", take: byExec("SET @got = GET_LOCK('" + name + "', 0)"), release: byExec("SET @got = RELEASE_LOCK('" + name + "')")},
		)
	}
	id := lockID(t, key)
	pair := fmt.Sprintf("(%d, %d)", int32(id>>32), int32(id))
	one := fmt.Sprintf("(%d)", id)
	return append(forms,
		rawForm{name: "blocking", take: byExec(text.block), release: byRow("SELECT pg_advisory_unlock_all()::text = ''")},
		rawForm{name: "shared", take: byRow("SELECT pg_try_advisory_lock_shared" + one), release: byRow("SELECT pg_advisory_unlock_shared" + one)},
		rawForm{name: "shared, blocking", take: byExec("SELECT pg_advisory_lock_shared" + one), release: byExec("SELECT pg_advisory_unlock_shared" + one)},
		rawForm{name: "a pair", take: byRow("SELECT pg_try_advisory_lock" + pair), release: byRow("SELECT pg_advisory_unlock" + pair), pair: true},
		rawForm{name: "a shared pair", take: byRow("SELECT pg_try_advisory_lock_shared" + pair), release: byRow("SELECT pg_advisory_unlock_shared" + pair), pair: true},
		rawForm{name: "PERFORM in DO", take: byExec("DO $$ BEGIN PERFORM pg_advisory_lock" + one + "; END $$"), release: byExec("SELECT pg_catalog.pg_advisory_unlock" + one)},
	)
}

func byRow(query string, args ...any) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) error {
		var yes sql.NullBool
		err := db.QueryRowContext(ctx, query, args...).Scan(&yes)
		return granted(yes, err)
	}
}

func byExec(query string, args ...any) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) error { return second(db.ExecContext(ctx, query, args...)) }
}

func byStmt(query string, args ...any) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) error {
		stmt, err := db.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		defer func() { _ = stmt.Close() }()
		var yes sql.NullBool
		err = stmt.QueryRowContext(ctx, args...).Scan(&yes)
		return granted(yes, err)
	}
}

// byRows leaves the result set open while another statement runs.
func byRows(query string) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) error {
		rows, err := db.QueryContext(ctx, query)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		if db.Stats().MaxOpenConnections != 1 {
			if err := db.PingContext(ctx); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

func granted(yes sql.NullBool, err error) error {
	if err == nil && !yes.Bool {
		err = fmt.Errorf("the server said no (%v)", yes)
	}
	return err
}

// tryForm is try for the form's lock.
func (o *outsider) tryForm(f rawForm, key string) bool {
	if !f.pair {
		return o.try(key)
	}
	id := lockID(o.t, key)
	pair := fmt.Sprintf("(%d, %d)", int32(id>>32), int32(id))
	var yes bool
	require.NoError(o.t, o.conn.QueryRowContext(testCtx(o.t), "SELECT pg_try_advisory_lock"+pair).Scan(&yes))
	if yes {
		require.NoError(o.t, second(o.conn.ExecContext(testCtx(o.t), "SELECT pg_advisory_unlock"+pair)))
	}
	return yes
}
