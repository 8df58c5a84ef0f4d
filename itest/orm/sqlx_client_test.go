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
	return sqlxClient{sqlxWork{x, s}, x}
}

// openSqlxNewDb opens sqlx on a *sql.DB, with the name of the driver below.
func openSqlxNewDb(t *testing.T, s server) client {
	x := sqlx.NewDb(s.open(t), s.Driver())
	return sqlxClient{sqlxWork{x, s}, x}
}

type sqlxClient struct {
	sqlxWork
	x *sqlx.DB
}

func (c sqlxClient) db() *sql.DB { return c.x.DB }

func (c sqlxClient) begin(ctx context.Context) (transaction, error) {
	tx, err := c.x.BeginTxx(ctx, nil)
	if err != nil {
		return nil, err
	}
	return sqlxTx{sqlxWork{tx, c.s}, tx}, nil
}

// sqlxWork is what *sqlx.DB and *sqlx.Tx have in common.
type sqlxWork struct {
	x interface {
		GetContext(ctx context.Context, dest any, query string, args ...any) error
		NamedExecContext(ctx context.Context, query string, arg any) (sql.Result, error)
		Rebind(query string) string
	}
	s server
}

func (w sqlxWork) session(ctx context.Context) (id int64, err error) {
	err = w.x.GetContext(ctx, &id, w.s.selectSession())
	return id, err
}

func (w sqlxWork) insert(ctx context.Context, id int64) error {
	_, err := w.x.NamedExecContext(ctx, "INSERT INTO item (id) VALUES (:id)", item{ID: id})
	return err
}

func (w sqlxWork) name(ctx context.Context, id int64) (name string, err error) {
	err = w.x.GetContext(ctx, &name, w.x.Rebind("SELECT name FROM item WHERE id = ?"), id)
	return name, err
}

func (w sqlxWork) rename(ctx context.Context, id int64, name string) error {
	_, err := w.x.NamedExecContext(ctx, "UPDATE item SET name = :name WHERE id = :id", item{ID: id, Name: name})
	return err
}

type sqlxTx struct {
	sqlxWork
	tx *sqlx.Tx
}

func (t sqlxTx) commit() error   { return t.tx.Commit() }
func (t sqlxTx) rollback() error { return t.tx.Rollback() }
