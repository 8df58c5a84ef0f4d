package orm_test

import (
	"context"
	"database/sql"
	"testing"
)

// library is one way to use a library on top of lockdb.
type library struct {
	name string
	open func(t *testing.T, s server) client
}

// work is what the promises are about, as the library does it.
type work interface {
	// session asks the server which session runs the statement.
	session(ctx context.Context) (int64, error)
	// insert adds an item, in whatever transaction the library uses for that.
	insert(ctx context.Context, id int64) error
	// name reads the item's name.
	name(ctx context.Context, id int64) (string, error)
	// rename writes it.
	rename(ctx context.Context, id int64, name string) error
}

type client interface {
	work
	// db is what lockctx takes.
	db() *sql.DB
	begin(ctx context.Context) (transaction, error)
}

type transaction interface {
	work
	commit() error
	rollback() error
}

var libraries = []library{
	{"gorm", openGorm(false)},
	{"gorm prepared", openGorm(true)},
	{"gorm over otelsql", openGormOverOtelsql},
	{"sqlx by name", openSqlxByName},
	{"sqlx NewDb", openSqlxNewDb},
	{"bun", openBun},
	{"bun simple protocol", openBunSimpleProtocol},
	{"ent OpenDB", openEntDB},
	{"ent by name", openEntByName},
	{"connector of others", openConnectorOfOthers},
	{"otelsql OpenDB", openOtelsqlDB},
	{"otelsql Register", openOtelsqlRegistered},
	{"otelsql Open", openOtelsqlByName},
}

// eachLibrary runs fn with every library on every server. id is an item's that
// no other run uses.
func eachLibrary(t *testing.T, fn func(t *testing.T, s server, c client, id int64)) {
	eachServer(t, func(t *testing.T, s server) {
		for i, lib := range libraries {
			t.Run(lib.name, func(t *testing.T) {
				fn(t, s, lib.open(t, s), int64(i+1))
			})
		}
	})
}
