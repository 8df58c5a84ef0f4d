package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// On PostgreSQL, what only pgx can do (COPY, LISTEN, batches) runs on the lock's
// session by way of Raw, which gives a connection that has a method
// Conn() *pgx.Conn. It is nil if the lock is gone or its session is busy. Until
// the Conn is closed, or runs a statement, nothing else under the lock can.
func ExampleLock_Conn() {
	ctx := context.Background()
	db, err := sql.Open("lockdb", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	lk, err := lockctx.Acquire(ctx, db, "import:prices")
	if err != nil {
		log.Fatal(err)
	}
	defer lk.Close()

	c, err := lk.Conn(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ExecContext(ctx, "CREATE TEMPORARY TABLE price (article text, cents int)"); err != nil {
		log.Fatal(err)
	}
	err = c.Raw(func(dc any) error {
		pg := dc.(interface{ Conn() *pgx.Conn }).Conn()
		if pg == nil {
			return errors.New("the lock's session is gone or busy")
		}
		n, err := pg.CopyFrom(ctx, pgx.Identifier{"price"}, []string{"article", "cents"},
			pgx.CopyFromRows([][]any{{"tea", 250}, {"rice", 199}}))
		fmt.Println("copied:", n)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.ExecContext(ctx, "DROP TABLE price"); err != nil {
		log.Fatal(err)
	}
	// Prints "copied: 2".
}

// The example has no Output comment: it needs a server.
func TestTheExampleOfCopyFromRuns(t *testing.T) {
	t.Setenv("DATABASE_URL", dbtest.Shared(t, dbtest.Postgres).DSN())
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = stdout }()
	ExampleLock_Conn()
	require.NoError(t, w.Close())
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "copied: 2\n", string(out))
}
