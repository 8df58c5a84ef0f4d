package orm_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/XSAM/otelsql"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
)

// openOtelsqlDB has otelsql wrap lockdb's connector.
func openOtelsqlDB(t *testing.T, s server) client {
	db := otelsql.OpenDB(s.connector(t))
	closeAtEnd(t, db)
	return plainClient{db, s}
}

// openOtelsqlRegistered has otelsql wrap lockdb's registered driver.
func openOtelsqlRegistered(t *testing.T, s server) client {
	name, err := otelsql.Register(driver.Name)
	require.NoError(t, err)
	db, err := sql.Open(name, s.DSN())
	require.NoError(t, err)
	closeAtEnd(t, db)
	return plainClient{db, s}
}

// openOtelsqlByName has otelsql open lockdb by its name.
func openOtelsqlByName(t *testing.T, s server) client {
	db, err := otelsql.Open(driver.Name, s.DSN())
	require.NoError(t, err)
	closeAtEnd(t, db)
	return plainClient{db, s}
}

// openGormOverOtelsql is gorm, otelsql and lockdb, one on the other.
func openGormOverOtelsql(t *testing.T, s server) client {
	db := otelsql.OpenDB(s.connector(t))
	closeAtEnd(t, db)
	return gormClient{gormWork{newGorm(t, s, db, true), s}, db}
}

// plainClient is database/sql itself.
type plainClient struct {
	*sql.DB
	s server
}

func (c plainClient) db() *sql.DB { return c.DB }

func (c plainClient) session(ctx context.Context) (int64, error) {
	return plainWork{c, c.s}.session(ctx)
}

func (c plainClient) insert(ctx context.Context, id int64) error {
	return plainWork{c, c.s}.insert(ctx, id)
}

func (c plainClient) begin(ctx context.Context) (transaction, error) {
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	return plainTx{plainWork{tx, c.s}, tx}, nil
}

type plainQueryer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

type plainWork struct {
	queryer plainQueryer
	s       server
}

func (w plainWork) session(ctx context.Context) (id int64, err error) {
	err = w.queryer.QueryRowContext(ctx, w.s.selectSession()).Scan(&id)
	return id, err
}

func (w plainWork) insert(ctx context.Context, id int64) error {
	query := "INSERT INTO item (id) VALUES (?)"
	if !w.s.IsMySQL() {
		query = "INSERT INTO item (id) VALUES ($1)"
	}
	_, err := w.queryer.ExecContext(ctx, query, id)
	return err
}

type plainTx struct {
	plainWork
	tx *sql.Tx
}

func (t plainTx) commit() error   { return t.tx.Commit() }
func (t plainTx) rollback() error { return t.tx.Rollback() }
