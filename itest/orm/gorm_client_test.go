package orm_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// item is the row of table item, for all libraries.
type item struct {
	bun.BaseModel `bun:"table:item" gorm:"-"`

	ID   int64 `gorm:"primaryKey;autoIncrement:false" db:"id" bun:",pk"`
	Name string
}

func (item) TableName() string { return "item" }

// newGorm opens gorm on a *sql.DB as gorm's documentation says.
func newGorm(t testing.TB, s server, db *sql.DB, prepare bool) *gorm.DB {
	t.Helper()
	dialector := mysql.New(mysql.Config{Conn: db})
	if !s.IsMySQL() {
		dialector = postgres.New(postgres.Config{Conn: db})
	}
	g, err := gorm.Open(dialector, &gorm.Config{
		PrepareStmt: prepare,
		Logger:      logger.Discard, // it would print the failures that the tests want
	})
	require.NoError(t, err)
	return g
}

func openGorm(prepare bool) func(*testing.T, server) client {
	return func(t *testing.T, s server) client {
		db := s.open(t)
		return gormClient{gormWork{newGorm(t, s, db, prepare), s}, db}
	}
}

type gormClient struct {
	gormWork
	sqlDB *sql.DB
}

func (c gormClient) db() *sql.DB { return c.sqlDB }

func (c gormClient) begin(ctx context.Context) (transaction, error) {
	tx := c.g.WithContext(ctx).Begin()
	if tx.Error != nil {
		return nil, tx.Error
	}
	return gormTx{gormWork{tx, c.s}}, nil
}

type gormWork struct {
	g *gorm.DB
	s server
}

func (w gormWork) session(ctx context.Context) (id int64, err error) {
	err = w.g.WithContext(ctx).Raw(w.s.selectSession()).Scan(&id).Error
	return id, err
}

func (w gormWork) insert(ctx context.Context, id int64) error {
	return w.g.WithContext(ctx).Create(&item{ID: id}).Error
}

func (w gormWork) name(ctx context.Context, id int64) (string, error) {
	var one item
	err := w.g.WithContext(ctx).First(&one, id).Error
	return one.Name, err
}

func (w gormWork) rename(ctx context.Context, id int64, name string) error {
	return w.g.WithContext(ctx).Save(&item{ID: id, Name: name}).Error
}

type gormTx struct{ gormWork }

func (t gormTx) commit() error   { return t.g.Commit().Error }
func (t gormTx) rollback() error { return t.g.Rollback().Error }
