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
	return newPlainClient(db, s)
}

// openOtelsqlRegistered has otelsql wrap lockdb's registered driver.
func openOtelsqlRegistered(t *testing.T, s server) client {
	name, err := otelsql.Register(driver.Name)
	require.NoError(t, err)
	db, err := sql.Open(name, s.DSN())
	require.NoError(t, err)
	closeAtEnd(t, db)
	return newPlainClient(db, s)
}

// openOtelsqlByName has otelsql open lockdb by its name.
func openOtelsqlByName(t *testing.T, s server) client {
	db, err := otelsql.Open(driver.Name, s.DSN())
	require.NoError(t, err)
	closeAtEnd(t, db)
	return newPlainClient(db, s)
}

// openGormOverOtelsql is gorm, otelsql and lockdb, one on the other.
func openGormOverOtelsql(t *testing.T, s server) client {
	db := otelsql.OpenDB(s.connector(t))
	closeAtEnd(t, db)
	return gormClient{gormWork{newGorm(t, s, db, true), s}, db}
}

// plainClient is database/sql itself.
type plainClient struct {
	plainWork
	sqlDB *sql.DB
}

func newPlainClient(db *sql.DB, s server) client { return plainClient{plainWork{db, s}, db} }

func (c plainClient) db() *sql.DB { return c.sqlDB }

func (c plainClient) begin(ctx context.Context) (transaction, error) {
	tx, err := c.sqlDB.BeginTx(ctx, nil)
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
	_, err := w.queryer.ExecContext(ctx, w.s.bind("INSERT INTO item (id) VALUES (?)"), id)
	return err
}

func (w plainWork) name(ctx context.Context, id int64) (name string, err error) {
	err = w.queryer.QueryRowContext(ctx, w.s.bind("SELECT name FROM item WHERE id = ?"), id).Scan(&name)
	return name, err
}

func (w plainWork) rename(ctx context.Context, id int64, name string) error {
	_, err := w.queryer.ExecContext(ctx, w.s.bind("UPDATE item SET name = ? WHERE id = ?"), name, id)
	return err
}

type plainTx struct {
	plainWork
	tx *sql.Tx
}

func (t plainTx) commit() error   { return t.tx.Commit() }
func (t plainTx) rollback() error { return t.tx.Rollback() }
