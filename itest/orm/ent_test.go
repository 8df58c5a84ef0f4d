package orm_test

import (
	"context"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"entgo.io/ent/dialect/sql/schema"
	"entgo.io/ent/dialect/sql/sqlgraph"
	"entgo.io/ent/schema/field"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/lockctx"
)

// eachEnt runs fn with ent's driver, opened in both ways, on every server,
// without and with a lock's context.
func eachEnt(t *testing.T, fn func(t *testing.T, s server, drv *entsql.Driver, lc lockCase)) {
	eachServer(t, func(t *testing.T, s server) {
		for name, open := range map[string]func(*testing.T, server) client{"OpenDB": openEntDB, "by name": openEntByName} {
			t.Run(name, func(t *testing.T) {
				c := open(t, s).(entClient)
				eachContext(t, s, c, func(t *testing.T, lc lockCase) { fn(t, s, c.drv, lc) })
			})
		}
	})
}

func entNames(ctx context.Context, t testing.TB, drv dialect.Driver) (names []string) {
	t.Helper()
	query, args := entsql.Dialect(drv.Dialect()).Select("name").From(entsql.Table("item")).OrderBy("id").Query()
	var rows entsql.Rows
	require.NoError(t, drv.Query(ctx, query, args, &rows))
	defer rows.Close()
	require.NoError(t, entsql.ScanSlice(rows, &names))
	return names
}

func TestEntQueries(t *testing.T) {
	eachEnt(t, func(t *testing.T, s server, drv *entsql.Driver, lc lockCase) {
		ctx := lc.ctx
		require.NoError(t, sqlgraph.CreateNode(ctx, drv, itemSpec(1, "one")))
		require.NoError(t, sqlgraph.BatchCreate(ctx, drv, &sqlgraph.BatchCreateSpec{
			Nodes: []*sqlgraph.CreateSpec{itemSpec(2, "two"), itemSpec(3, "three")},
		}))
		err := sqlgraph.CreateNode(ctx, drv, itemSpec(1, "again"))
		require.True(t, sqlgraph.IsConstraintError(err), "the driver's error is told apart by its number: %v", err)

		id := sqlgraph.NewFieldSpec("id", field.TypeInt64)
		update := sqlgraph.NewUpdateSpec("item", []string{"id", "name"}, id)
		update.SetField("name", field.TypeString, "more")
		update.Predicate = func(sel *entsql.Selector) { sel.Where(entsql.GT("id", 1)) }
		n, err := sqlgraph.UpdateNodes(ctx, drv, update)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		remove := sqlgraph.NewDeleteSpec("item", id)
		remove.Predicate = func(sel *entsql.Selector) { sel.Where(entsql.EQ("id", 3)) }
		n, err = sqlgraph.DeleteNodes(ctx, drv, remove)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, []string{"one", "more"}, entNames(ctx, t, drv))
	})
}

func TestEntTransactions(t *testing.T) {
	eachEnt(t, func(t *testing.T, s server, drv *entsql.Driver, lc lockCase) {
		for id, end := range []func(dialect.Tx) error{dialect.Tx.Commit, dialect.Tx.Rollback} {
			tx, err := drv.Tx(lc.ctx)
			require.NoError(t, err)
			client := entTxDriver{tx, drv.Dialect()}
			require.NoError(t, sqlgraph.CreateNode(lc.ctx, client, itemSpec(int64(id), "x")))
			require.NoError(t, end(tx))
		}
		require.True(t, s.has(t, 0))
		require.False(t, s.has(t, 1))
	})
}

// ent's migrations are what a service runs at its start, under a lock. Before
// them ent asks what server it is, under a context of its own, and so elsewhere.
func TestEntMigrations(t *testing.T) {
	columns := []*schema.Column{
		{Name: "id", Type: field.TypeInt64, Increment: true},
		{Name: "name", Type: field.TypeString, Size: 50},
	}
	table := &schema.Table{Name: "made", Columns: columns, PrimaryKey: columns[:1]}
	eachServer(t, func(t *testing.T, s server) {
		c := openEntDB(t, s).(entClient)
		migrate, err := schema.NewMigrate(c.drv)
		require.NoError(t, err)
		lk, session := s.acquire(t, c.db())
		for _, ctx := range []context.Context{lk.Context(), testCtx(t), lk.Context()} {
			require.NoError(t, migrate.Create(ctx, table))
			_, err = s.outside.Exec("DROP TABLE made")
			require.NoError(t, err)
		}
		require.Equal(t, session, s.holder(t, lk.Key()))
		require.NoError(t, lk.Close())
		require.ErrorIs(t, migrate.Create(lk.Context(), table), lockctx.ErrReleased)
		_, err = s.outside.Exec("DROP TABLE made")
		require.Error(t, err)
	})
}

// ent sets variables on a connection of its own, and resets them there.
func TestEntSessionVariables(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		c := openEntDB(t, s).(entClient)
		eachContext(t, s, c, func(t *testing.T, lc lockCase) {
			name, show := "myapp.tenant", "SELECT COALESCE(current_setting('myapp.tenant', true), '')"
			if s.IsMySQL() {
				name, show = "@tenant", "SELECT COALESCE(@tenant, '')"
			}
			ask := func(ctx context.Context) string {
				var rows entsql.Rows
				require.NoError(t, c.drv.Query(ctx, show, []any{}, &rows))
				defer rows.Close()
				value, err := entsql.ScanString(rows)
				require.NoError(t, err)
				return value
			}
			require.Equal(t, "acme", ask(entsql.WithVar(lc.ctx, name, "acme")))
			require.Empty(t, ask(lc.ctx))
		})
	})
}
