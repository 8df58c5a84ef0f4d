package orm_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
)

// sqlx knows the drivers' names one by one. To one that it does not know it
// sends '?', which MySQL takes; PostgreSQL's has to be told to it once.
func init() { sqlx.BindDriver(driver.PostgresName, sqlx.DOLLAR) }

// openSqlxByName opens sqlx as its documentation says, with lockdb's names.
func openSqlxByName(t *testing.T, s server) client {
	name := driver.MySQLName
	if !s.IsMySQL() {
		name = driver.PostgresName
	}
	x, err := sqlx.Connect(name, s.DSN())
	require.NoError(t, err)
	closeAtEnd(t, x.DB)
	return sqlxClient{x, s}
}

// openSqlxNewDb opens sqlx on a *sql.DB, with the name of the driver below.
func openSqlxNewDb(t *testing.T, s server) client {
	return sqlxClient{sqlx.NewDb(s.open(t), s.Driver()), s}
}

type sqlxClient struct {
	*sqlx.DB
	s server
}

func (c sqlxClient) db() *sql.DB { return c.DB.DB }

func (c sqlxClient) session(ctx context.Context) (id int64, err error) {
	err = c.GetContext(ctx, &id, c.s.selectSession())
	return id, err
}

func (c sqlxClient) insert(ctx context.Context, id int64) error {
	_, err := c.NamedExecContext(ctx, "INSERT INTO item (id) VALUES (:id)", item{ID: id})
	return err
}

func (c sqlxClient) begin(ctx context.Context) (transaction, error) {
	tx, err := c.BeginTxx(ctx, nil)
	if err != nil {
		return nil, err
	}
	return sqlxTx{tx, c.s}, nil
}

type sqlxTx struct {
	*sqlx.Tx
	s server
}

func (t sqlxTx) session(ctx context.Context) (id int64, err error) {
	err = t.GetContext(ctx, &id, t.s.selectSession())
	return id, err
}

func (t sqlxTx) insert(ctx context.Context, id int64) error {
	_, err := t.NamedExecContext(ctx, "INSERT INTO item (id) VALUES (:id)", item{ID: id})
	return err
}

func (t sqlxTx) commit() error   { return t.Commit() }
func (t sqlxTx) rollback() error { return t.Rollback() }
