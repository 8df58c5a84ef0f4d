package orm_test

import (
	"context"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"
)

// eachSqlx runs fn with sqlx, opened in both ways, on every server, without and
// with a lock's context.
func eachSqlx(t *testing.T, fn func(t *testing.T, s server, x *sqlx.DB, lc lockCase)) {
	eachServer(t, func(t *testing.T, s server) {
		for name, open := range map[string]func(*testing.T, server) client{"by name": openSqlxByName, "NewDb": openSqlxNewDb} {
			t.Run(name, func(t *testing.T) {
				c := open(t, s).(sqlxClient)
				eachContext(t, s, c, func(t *testing.T, lc lockCase) { fn(t, s, c.x, lc) })
			})
		}
	})
}

func TestSqlxQueries(t *testing.T) {
	eachSqlx(t, func(t *testing.T, _ server, x *sqlx.DB, lc lockCase) {
		ctx := lc.ctx
		_, err := x.NamedExecContext(ctx, "INSERT INTO item (id, name) VALUES (:id, :name)",
			[]item{{ID: 1, Name: "one"}, {ID: 2, Name: "two"}, {ID: 3, Name: "three"}})
		require.NoError(t, err)

		var one item
		require.NoError(t, x.GetContext(ctx, &one, x.Rebind("SELECT id, name FROM item WHERE id = ?"), 2))
		require.Equal(t, item{ID: 2, Name: "two"}, one)

		query, args, err := sqlx.In("SELECT id, name FROM item WHERE id IN (?) ORDER BY id", []int64{1, 3})
		require.NoError(t, err)
		var some []item
		require.NoError(t, x.SelectContext(ctx, &some, x.Rebind(query), args...))
		require.Equal(t, []item{{ID: 1, Name: "one"}, {ID: 3, Name: "three"}}, some)

		query, args, err = sqlx.Named("UPDATE item SET name = :name WHERE id IN (:ids)",
			map[string]any{"name": "more", "ids": []int64{2, 3}})
		require.NoError(t, err)
		query, args, err = sqlx.In(query, args...)
		require.NoError(t, err)
		_, err = x.ExecContext(ctx, x.Rebind(query), args...)
		require.NoError(t, err)

		rows, err := x.NamedQueryContext(ctx, "SELECT id, name FROM item WHERE name = :name ORDER BY id", item{Name: "more"})
		require.NoError(t, err)
		some = nil
		for rows.Next() {
			require.NoError(t, rows.StructScan(&one))
			some = append(some, one)
		}
		require.NoError(t, rows.Close())
		require.Equal(t, []item{{ID: 2, Name: "more"}, {ID: 3, Name: "more"}}, some)

		m := map[string]any{}
		require.NoError(t, x.QueryRowxContext(ctx, "SELECT id FROM item WHERE name = 'one'").MapScan(m))
		require.EqualValues(t, 1, m["id"])
	})
}

func TestSqlxPreparedStatements(t *testing.T) {
	eachSqlx(t, func(t *testing.T, s server, x *sqlx.DB, lc lockCase) {
		insert, err := x.PrepareNamedContext(lc.ctx, "INSERT INTO item (id, name) VALUES (:id, :name)")
		require.NoError(t, err)
		for id := range int64(3) {
			_, err = insert.ExecContext(lc.ctx, item{ID: id})
			require.NoError(t, err)
		}
		get, err := x.PreparexContext(lc.ctx, x.Rebind("SELECT id, name FROM item WHERE id = ?"))
		require.NoError(t, err)
		var one item
		require.NoError(t, get.GetContext(lc.ctx, &one, 2))
		require.Equal(t, item{ID: 2}, one)

		tx, err := x.BeginTxx(lc.ctx, nil)
		require.NoError(t, err)
		_, err = tx.NamedStmtContext(lc.ctx, insert).ExecContext(lc.ctx, item{ID: 7})
		require.NoError(t, err)
		require.NoError(t, tx.StmtxContext(lc.ctx, get).GetContext(lc.ctx, &one, 7))
		require.NoError(t, tx.Rollback())
		require.False(t, s.has(t, 7))
		require.NoError(t, get.Close())
		require.NoError(t, insert.Close())
	})
}

func TestSqlxTransactions(t *testing.T) {
	eachSqlx(t, func(t *testing.T, s server, x *sqlx.DB, lc lockCase) {
		tx, err := x.BeginTxx(lc.ctx, nil)
		require.NoError(t, err)
		_, err = tx.NamedExecContext(lc.ctx, "INSERT INTO item (id, name) VALUES (:id, :name)", item{ID: 1})
		require.NoError(t, err)
		var ids []int64
		require.NoError(t, tx.SelectContext(lc.ctx, &ids, "SELECT id FROM item"))
		require.Equal(t, []int64{1}, ids)
		require.NoError(t, tx.Commit())
		require.True(t, s.has(t, 1))
	})
}

func TestSqlxConnx(t *testing.T) {
	eachSqlx(t, func(t *testing.T, s server, x *sqlx.DB, lc lockCase) {
		c, err := x.Connx(lc.ctx)
		require.NoError(t, err)
		sessionOf := func(ctx context.Context) (id int64) {
			require.NoError(t, c.GetContext(ctx, &id, s.selectSession()))
			return id
		}
		first := sessionOf(lc.ctx)
		require.Equal(t, first, sessionOf(lc.ctx))
		if lc.lock != nil {
			require.Equal(t, lc.session, first)
		}
		require.NoError(t, c.Close())
	})
}
