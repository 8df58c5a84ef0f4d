package orm_test

import (
	"context"
	"database/sql"
	"testing"

	entsql "entgo.io/ent/dialect/sql"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// The ways to give an ORM a lock's session that need no slot of the pool. Each
// test has taken every slot.

func gormOn(t testing.TB, s server, pool gorm.ConnPool, prepare bool) *gorm.DB {
	t.Helper()
	// gorm's ping and its question for the version bear a context of its own.
	dialector := mysql.New(mysql.Config{Conn: pool, SkipInitializeWithVersion: true})
	if !s.IsMySQL() {
		dialector = postgres.New(postgres.Config{Conn: pool})
	}
	g, err := gorm.Open(dialector, &gorm.Config{PrepareStmt: prepare, DisableAutomaticPing: true, Logger: logger.Discard})
	require.NoError(t, err)
	return g
}

// fullPool takes the only slot of a pool until the test ends.
func (s server) fullPool(t testing.TB) *sql.DB {
	t.Helper()
	db := s.open(t)
	db.SetMaxOpenConns(1)
	tx, err := db.Begin()
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return db
}

func requireGormWorksOn(t *testing.T, s server, g *gorm.DB, ctx context.Context, session int64) { //nolint:revive // ctx is what is tested
	t.Helper()
	work := gormWork{g, s}
	got, err := work.session(ctx)
	require.NoError(t, err)
	require.Equal(t, session, got)
	require.NoError(t, g.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		got, err := gormWork{tx, s}.session(ctx)
		require.Equal(t, session, got)
		require.NoError(t, err)
		return tx.Create(&item{ID: 1}).Error
	}))
	require.True(t, s.has(t, 1))
	require.NoError(t, work.rename(ctx, 1, "one"))
	name, err := work.name(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, "one", name)
	s.emptyTables(t)
}

func TestGormOnTheConnOfALock(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		for _, prepare := range []bool{false, true} {
			lk, session := s.acquire(t, s.fullPool(t))
			c, err := lk.Conn(testCtx(t))
			require.NoError(t, err)
			g := gormOn(t, s, c, prepare)
			requireGormWorksOn(t, s, g, testCtx(t), session)
			requireGormWorksOn(t, s, g, lk.Context(), session)
			require.NoError(t, c.Close())
			require.NoError(t, lk.Close())
		}
	})
}

func TestGormOnTheDBOfALock(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		for _, prepare := range []bool{false, true} {
			lk, session := s.acquire(t, s.fullPool(t))
			g := gormOn(t, s, lk.DB(), prepare)
			requireGormWorksOn(t, s, g, lk.Context(), session)
			_, err := gormWork{g, s}.session(testCtx(t))
			require.ErrorIs(t, err, lockctx.ErrUnsupported, "it has no other connection")
			require.NoError(t, lk.Close())
			_, err = gormWork{g, s}.session(lk.Context())
			require.ErrorIs(t, err, lockctx.ErrReleased)
		}
	})
}

func TestGormInTheTransactionOfInTx(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		for _, prepare := range []bool{false, true} {
			db, key := s.fullPool(t), dbtest.Key(t)
			insert := func(fail error) error {
				return lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
					work := gormWork{gormOn(t, s, tx, prepare), s}
					got, err := work.session(ctx)
					require.NoError(t, err)
					require.Equal(t, s.holder(t, key), got)
					require.NoError(t, work.insert(ctx, 1))
					return fail
				})
			}
			require.ErrorIs(t, insert(errOnPurpose), errOnPurpose)
			require.False(t, s.has(t, 1))
			require.NoError(t, insert(nil))
			require.True(t, s.has(t, 1))
			s.emptyTables(t)
		}
	})
}

func TestEntOnTheConnOfALock(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		lk, session := s.acquire(t, s.fullPool(t))
		c, err := lk.Conn(testCtx(t))
		require.NoError(t, err)
		work := entWork{entsql.NewDriver(s.dialect(), entsql.Conn{ExecQuerier: c}), s}
		got, err := work.session(testCtx(t))
		require.NoError(t, err)
		require.Equal(t, session, got)
		require.NoError(t, work.insert(testCtx(t), 1))
		require.True(t, s.has(t, 1))
		require.NoError(t, c.Close())
		require.NoError(t, lk.Close())
	})
}
