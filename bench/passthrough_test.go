package bench

import (
	"context"
	"database/sql"
	"testing"

	"github.com/ngrok/sqlmw"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/lockctx"
)

func init() { sql.Register("sqlmw", sqlmw.Driver(new(noop), sqlmw.NullInterceptor{})) }

// BenchmarkPassThrough measures what lockdb costs statements that have nothing to
// do with a lock, on a driver that does nothing. "locked" is lockdb while a lock is
// held elsewhere: it then looks into every statement's context.
func BenchmarkPassThrough(b *testing.B) {
	bare := sql.OpenDB(new(noop))
	wrapped, locked := openNoop(b), openNoop(b)
	lk, err := lockctx.Acquire(context.Background(), locked, "elsewhere")
	must(b, err)
	mw, err := sql.Open("sqlmw", "")
	must(b, err)
	b.Cleanup(func() {
		_, _, _ = bare.Close(), mw.Close(), lk.Close()
	})

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, op := range []struct {
		name string
		run  func(context.Context, *sql.DB) error
	}{
		{"QueryRow", queryRow},
		{"Exec", exec},
		{"PrepareExec", prepareExec},
		{"BeginCommit", beginCommit},
	} {
		b.Run("op="+op.name, func(b *testing.B) {
			compare(b, 200,
				contender{"bare", func() error { return op.run(ctx, bare) }},
				contender{"lockdb", func() error { return op.run(ctx, wrapped) }},
				contender{"locked", func() error { return op.run(ctx, locked) }},
				contender{"sqlmw", func() error { return op.run(ctx, mw) }},
			)
		})
	}
}

func openNoop(b *testing.B) *sql.DB {
	b.Helper()
	c, err := driver.NewConnector(new(noop), driver.WithDialect(driver.MySQL))
	must(b, err)
	db := sql.OpenDB(c)
	b.Cleanup(func() { _ = db.Close() })
	return db
}

func queryRow(ctx context.Context, db *sql.DB) error {
	var n int64
	return db.QueryRowContext(ctx, "SELECT n FROM t WHERE id = ?", 1).Scan(&n)
}

func exec(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "UPDATE t SET n = n + 1 WHERE id = ?", 1)
	return err
}

func prepareExec(ctx context.Context, db *sql.DB) error {
	stmt, err := db.PrepareContext(ctx, "UPDATE t SET n = n + 1 WHERE id = ?")
	if err != nil {
		return err
	}
	if _, err := stmt.ExecContext(ctx, 1); err != nil {
		return err
	}
	return stmt.Close()
}

func beginCommit(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	return tx.Commit()
}
