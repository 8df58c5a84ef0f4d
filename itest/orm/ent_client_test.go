package orm_test

import (
	"context"
	"database/sql"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"entgo.io/ent/dialect/sql/sqlgraph"
	"entgo.io/ent/schema/field"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
)

// The tests use what ent's generated code calls: the driver, the builder, and
// sqlgraph.

// openEntDB opens ent on a *sql.DB as its documentation says.
func openEntDB(t *testing.T, s server) client {
	drv := entsql.OpenDB(s.dialect(), s.open(t))
	return entClient{entWork{drv, s}, drv}
}

// openEntByName lets ent tell the dialect by the prefix of the driver's name.
func openEntByName(t *testing.T, s server) client {
	name := driver.MySQLName
	if !s.IsMySQL() {
		name = driver.PostgresName
	}
	drv, err := entsql.Open(name, s.DSN())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, drv.Close()) })
	require.Equal(t, s.dialect(), drv.Dialect())
	return entClient{entWork{drv, s}, drv}
}

type entClient struct {
	entWork
	drv *entsql.Driver
}

func (c entClient) db() *sql.DB { return c.drv.DB() }

func (c entClient) begin(ctx context.Context) (transaction, error) {
	tx, err := c.drv.Tx(ctx)
	if err != nil {
		return nil, err
	}
	return entTx{entWork{entTxDriver{tx, c.drv.Dialect()}, c.s}, tx}, nil
}

type entWork struct {
	drv dialect.Driver
	s   server
}

func (w entWork) session(ctx context.Context) (int64, error) {
	var rows entsql.Rows
	if err := w.drv.Query(ctx, w.s.selectSession(), []any{}, &rows); err != nil {
		return 0, err
	}
	defer rows.Close()
	return entsql.ScanInt64(rows)
}

func itemSpec(id int64, name string) *sqlgraph.CreateSpec {
	spec := sqlgraph.NewCreateSpec("item", sqlgraph.NewFieldSpec("id", field.TypeInt64))
	spec.ID.Value = id
	spec.SetField("name", field.TypeString, name)
	return spec
}

func (w entWork) insert(ctx context.Context, id int64) error {
	return sqlgraph.CreateNode(ctx, w.drv, itemSpec(id, ""))
}

func (w entWork) name(ctx context.Context, id int64) (string, error) {
	query, args := entsql.Dialect(w.drv.Dialect()).Select("name").From(entsql.Table("item")).Where(entsql.EQ("id", id)).Query()
	var rows entsql.Rows
	if err := w.drv.Query(ctx, query, args, &rows); err != nil {
		return "", err
	}
	defer rows.Close()
	return entsql.ScanString(rows)
}

func (w entWork) rename(ctx context.Context, id int64, name string) error {
	spec := sqlgraph.NewUpdateSpec("item", []string{"id", "name"}, sqlgraph.NewFieldSpec("id", field.TypeInt64))
	spec.SetField("name", field.TypeString, name)
	spec.Predicate = func(sel *entsql.Selector) { sel.Where(entsql.EQ("id", id)) }
	_, err := sqlgraph.UpdateNodes(ctx, w.drv, spec)
	return err
}

type entTx struct {
	entWork
	tx dialect.Tx
}

func (t entTx) commit() error   { return t.tx.Commit() }
func (t entTx) rollback() error { return t.tx.Rollback() }

// entTxDriver is the driver of a transaction's client, as ent generates it: in
// it Tx, Commit and Rollback do nothing.
type entTxDriver struct {
	dialect.ExecQuerier
	name string
}

func (d entTxDriver) Dialect() string { return d.name }
func (d entTxDriver) Commit() error   { return nil }
func (d entTxDriver) Rollback() error { return nil }
func (d entTxDriver) Close() error    { return nil }

func (d entTxDriver) Tx(context.Context) (dialect.Tx, error) { return d, nil }
