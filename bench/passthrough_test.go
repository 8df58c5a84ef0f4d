package bench

import (
	"context"
	"database/sql"
	"testing"

	"github.com/XSAM/otelsql"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/ngrok/sqlmw"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/lockctx"
)

func init() {
	sql.Register("sqlmw", sqlmw.Driver(new(noop), sqlmw.NullInterceptor{}))
	sql.Register("mysql+sqlmw", sqlmw.Driver(mysql.MySQLDriver{}, sqlmw.NullInterceptor{}))
	sql.Register("pgx+sqlmw", sqlmw.Driver(stdlib.GetDefaultDriver(), sqlmw.NullInterceptor{}))
}

// BenchmarkPassThrough measures what lockdb costs statements that have nothing to
// do with a lock, on a driver that does nothing. "locked" is lockdb while a lock is
// held elsewhere: it then looks into every statement's context. otelsql has no
// tracer, so that it costs the least that it can.
func BenchmarkPassThrough(b *testing.B) {
	bare, otel := sql.OpenDB(new(noop)), otelsql.OpenDB(new(noop))
	wrapped, locked := openNoop(b), openNoop(b)
	lk, err := lockctx.Acquire(context.Background(), locked, "elsewhere")
	must(b, err)
	mw, err := sql.Open("sqlmw", "")
	must(b, err)
	b.Cleanup(func() {
		_, _, _, _ = bare.Close(), mw.Close(), otel.Close(), lk.Close()
	})
	passThrough(b, 200, mysqlPassing, []passing{
		{"bare", bare}, {"lockdb", wrapped}, {"locked", locked}, {"sqlmw", mw}, {"otelsql", otel},
	})
}

// BenchmarkPassThroughServer is BenchmarkPassThrough on real servers.
func BenchmarkPassThroughServer(b *testing.B) {
	onServers(b, func(b *testing.B, s server) {
		s.Server = s.CreateDatabase(b)
		s.numbers(b, 1)
		mw, err := sql.Open(s.Driver()+"+sqlmw", s.dsn())
		must(b, err)
		otel, err := otelsql.Open(s.Driver(), s.dsn())
		must(b, err)
		b.Cleanup(func() { _, _ = mw.Close(), otel.Close() })
		statements := mysqlPassing
		if !s.IsMySQL() {
			statements = postgresPassing
		}
		passThrough(b, 1, statements, []passing{
			{"bare", s.bare(b)}, {"lockdb", s.open(b)}, {"sqlmw", mw}, {"otelsql", otel},
		})
	})
}

// passing is a way to the driver.
type passing struct {
	name string
	db   *sql.DB
}

// passed are the statements that pass through.
type passed struct{ query, update string }

var (
	mysqlPassing    = passed{"SELECT n FROM numbers WHERE id = ?", "UPDATE numbers SET n = n + 1 WHERE id = ?"}
	postgresPassing = passed{"SELECT n FROM numbers WHERE id = $1", "UPDATE numbers SET n = n + 1 WHERE id = $1"}
)

func passThrough(b *testing.B, round int, p passed, ways []passing) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, op := range []struct {
		name string
		run  func(context.Context, *sql.DB) error
	}{
		{"QueryRow", p.queryRow},
		{"Exec", p.exec},
		{"PrepareExec", p.prepareExec},
		{"BeginCommit", beginCommit},
	} {
		b.Run("op="+op.name, func(b *testing.B) {
			contenders := make([]contender, len(ways))
			for i, w := range ways {
				contenders[i] = contender{w.name, func() error { return op.run(ctx, w.db) }}
			}
			compare(b, round, contenders...)
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

func (p passed) queryRow(ctx context.Context, db *sql.DB) error {
	var n int64
	return db.QueryRowContext(ctx, p.query, 0).Scan(&n)
}

func (p passed) exec(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, p.update, 0)
	return err
}

func (p passed) prepareExec(ctx context.Context, db *sql.DB) error {
	stmt, err := db.PrepareContext(ctx, p.update)
	if err != nil {
		return err
	}
	if _, err := stmt.ExecContext(ctx, 0); err != nil {
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
