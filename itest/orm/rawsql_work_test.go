package orm_test

import (
	"context"
	"database/sql"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/lockkey"
)

// textWork is what work does that sends lock statements as text.
type textWork interface {
	// tells runs a query for one value, with one argument.
	tells(ctx context.Context, query string, arg any) (bool, error)
}

// lockText are the statements for one lock, with a placeholder for it as the
// libraries have it, that is "?".
type lockText struct {
	take, release string
	arg           any
}

func (s server) lockText(t testing.TB) lockText {
	t.Helper()
	key := dbtest.Key(t)
	if s.IsMySQL() {
		name, err := lockkey.Name("", key)
		require.NoError(t, err)
		return lockText{"SELECT GET_LOCK(?, 0) AS yes", "SELECT RELEASE_LOCK(?) AS yes", name}
	}
	id, err := lockkey.ID("", key)
	require.NoError(t, err)
	return lockText{"SELECT pg_try_advisory_lock(?) AS yes", "SELECT pg_advisory_unlock(?) AS yes", id}
}

// free tells whether the server grants the lock to a client that knows nothing
// of lockdb. It lets it go again.
func (s server) free(t testing.TB, l lockText) bool {
	t.Helper()
	c, err := s.outside.Conn(testCtx(t))
	require.NoError(t, err)
	defer c.Close()
	var granted, released bool
	require.NoError(t, c.QueryRowContext(testCtx(t), s.bind(l.take), l.arg).Scan(&granted))
	if granted {
		require.NoError(t, c.QueryRowContext(testCtx(t), s.bind(l.release), l.arg).Scan(&released))
		require.True(t, released)
	}
	return granted
}

func (w gormWork) tells(ctx context.Context, query string, arg any) (bool, error) {
	var yes sql.NullBool
	err := w.g.WithContext(ctx).Raw(query, arg).Scan(&yes).Error
	return yes.Bool, err
}

func (w sqlxWork) tells(ctx context.Context, query string, arg any) (bool, error) {
	var yes sql.NullBool
	err := w.x.GetContext(ctx, &yes, w.x.Rebind(query), arg)
	return yes.Bool, err
}

func (w bunWork) tells(ctx context.Context, query string, arg any) (bool, error) {
	var yes sql.NullBool
	err := w.NewRaw(query, arg).Scan(ctx, &yes)
	return yes.Bool, err
}

func (w entWork) tells(ctx context.Context, query string, arg any) (bool, error) {
	if w.drv.Dialect() == dialect.Postgres {
		query = w.s.bind(query)
	}
	var rows entsql.Rows
	if err := w.drv.Query(ctx, query, []any{arg}, &rows); err != nil {
		return false, err
	}
	defer rows.Close()
	return entsql.ScanBool(rows)
}

func (w plainWork) tells(ctx context.Context, query string, arg any) (bool, error) {
	var yes sql.NullBool
	err := w.queryer.QueryRowContext(ctx, w.s.bind(query), arg).Scan(&yes)
	return yes.Bool, err
}
