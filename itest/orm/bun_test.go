package orm_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// eachBun runs fn with bun, opened in both ways, on every server, without and
// with a lock's context.
func eachBun(t *testing.T, fn func(t *testing.T, s server, b *bun.DB, lc lockCase)) {
	eachServer(t, func(t *testing.T, s server) {
		for name, open := range map[string]func(*testing.T, server) client{"default": openBun, "simple protocol": openBunSimpleProtocol} {
			t.Run(name, func(t *testing.T) {
				c := open(t, s).(bunClient)
				eachContext(t, s, c, func(t *testing.T, lc lockCase) { fn(t, s, c.b, lc) })
			})
		}
	})
}

func TestBunQueries(t *testing.T) {
	eachBun(t, func(t *testing.T, _ server, b *bun.DB, lc lockCase) {
		ctx := lc.ctx
		_, err := b.NewInsert().Model(&[]item{{ID: 1, Name: "it's"}, {ID: 2, Name: "two"}, {ID: 3}}).Exec(ctx)
		require.NoError(t, err)
		var some []item
		require.NoError(t, b.NewSelect().Model(&some).Where("id IN (?)", bun.List([]int64{1, 2})).Order("id").Scan(ctx))
		require.Len(t, some, 2)
		require.Equal(t, "it's", some[0].Name)
		_, err = b.NewUpdate().Model(&item{ID: 3, Name: "three"}).WherePK().Exec(ctx)
		require.NoError(t, err)
		n, err := b.NewSelect().Model((*item)(nil)).Where("name = ?", "three").Count(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		exists, err := b.NewSelect().Model((*item)(nil)).Where("id = ?", 9).Exists(ctx)
		require.NoError(t, err)
		require.False(t, exists)
		_, err = b.NewDelete().Model((*item)(nil)).Where("id < ?", 3).Exec(ctx)
		require.NoError(t, err)

		rows, err := b.NewSelect().Model((*item)(nil)).Rows(ctx)
		require.NoError(t, err)
		some = nil
		require.NoError(t, b.ScanRows(ctx, rows, &some))
		require.NoError(t, rows.Close())
		require.Len(t, some, 1)
	})
}

func TestBunTransactions(t *testing.T) {
	eachBun(t, func(t *testing.T, s server, b *bun.DB, lc lockCase) {
		insert := func(ctx context.Context, db bun.IDB, id int64) {
			t.Helper()
			_, err := db.NewInsert().Model(&item{ID: id}).Exec(ctx)
			require.NoError(t, err)
		}
		require.NoError(t, b.RunInTx(lc.ctx, &sql.TxOptions{}, func(ctx context.Context, tx bun.Tx) error {
			insert(ctx, tx, 1)
			require.ErrorIs(t, tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				insert(ctx, tx, 2)
				return errOnPurpose
			}), errOnPurpose)
			return tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				insert(ctx, tx, 3)
				return nil
			})
		}))
		require.True(t, s.has(t, 1))
		require.False(t, s.has(t, 2), "rolled back to the savepoint")
		require.True(t, s.has(t, 3))

		require.ErrorIs(t, b.RunInTx(lc.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			insert(ctx, tx, 4)
			return errOnPurpose
		}), errOnPurpose)
		require.False(t, s.has(t, 4))
	})
}

func TestBunTables(t *testing.T) {
	type made struct {
		ID   int64 `bun:",pk,autoincrement"`
		Name string
	}
	eachBun(t, func(t *testing.T, _ server, b *bun.DB, lc lockCase) {
		_, err := b.NewCreateTable().Model((*made)(nil)).IfNotExists().Exec(lc.ctx)
		require.NoError(t, err)
		one := made{Name: "x"}
		_, err = b.NewInsert().Model(&one).Exec(lc.ctx)
		require.NoError(t, err)
		require.NotZero(t, one.ID)
		_, err = b.NewDropTable().Model((*made)(nil)).Exec(lc.ctx)
		require.NoError(t, err)
	})
}

func TestBunConn(t *testing.T) {
	eachBun(t, func(t *testing.T, s server, b *bun.DB, lc lockCase) {
		c, err := b.Conn(lc.ctx)
		require.NoError(t, err)
		id, err := bunWork{c, s}.session(lc.ctx)
		require.NoError(t, err)
		require.Equal(t, lc.lock != nil, id == lc.session)
		require.NoError(t, c.Close())
	})
}
