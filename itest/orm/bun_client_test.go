package orm_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/lockdb/lockdb/driver"
)

// newBun opens bun on a *sql.DB as bun's documentation says.
func newBun(s server, db *sql.DB) *bun.DB {
	if s.IsMySQL() {
		return bun.NewDB(db, mysqldialect.New())
	}
	return bun.NewDB(db, pgdialect.New())
}

func openBun(t *testing.T, s server) client {
	b := newBun(s, s.open(t))
	return bunClient{bunWork{b, s}, b}
}

// openBunSimpleProtocol opens PostgreSQL as bun's page on pgx says, with
// lockdb's connector around pgx's.
func openBunSimpleProtocol(t *testing.T, s server) client {
	if s.IsMySQL() {
		return openBun(t, s)
	}
	config, err := pgx.ParseConfig(s.DSN())
	require.NoError(t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	// Sockets of connectors from elsewhere are not watched: pings tell of a
	// loss, the sooner the shorter the TTL.
	connector, err := driver.NewConnector(stdlib.GetConnector(*config), driver.WithTTL(5*time.Second))
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	closeAtEnd(t, db)
	b := newBun(s, db)
	return bunClient{bunWork{b, s}, b}
}

type bunClient struct {
	bunWork
	b *bun.DB
}

func (c bunClient) db() *sql.DB { return c.b.DB }

func (c bunClient) begin(ctx context.Context) (transaction, error) {
	tx, err := c.b.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	return bunTx{bunWork{tx, c.s}, tx}, nil
}

type bunWork struct {
	bun.IDB
	s server
}

func (w bunWork) session(ctx context.Context) (id int64, err error) {
	err = w.NewRaw(w.s.selectSession()).Scan(ctx, &id)
	return id, err
}

func (w bunWork) insert(ctx context.Context, id int64) error {
	_, err := w.NewInsert().Model(&item{ID: id}).Exec(ctx)
	return err
}

func (w bunWork) name(ctx context.Context, id int64) (string, error) {
	one := item{ID: id}
	err := w.NewSelect().Model(&one).WherePK().Scan(ctx)
	return one.Name, err
}

func (w bunWork) rename(ctx context.Context, id int64, name string) error {
	_, err := w.NewUpdate().Model(&item{ID: id, Name: name}).WherePK().Exec(ctx)
	return err
}

type bunTx struct {
	bunWork
	tx bun.Tx
}

func (t bunTx) commit() error   { return t.tx.Commit() }
func (t bunTx) rollback() error { return t.tx.Rollback() }
