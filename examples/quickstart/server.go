package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the bare driver "mysql"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the bare driver "pgx"

	_ "github.com/lockdb/lockdb/driver" // "lockdb"
	"github.com/lockdb/lockdb/lockctx"
)

// server is what the story must know of a server: one SQL for MySQL and
// MariaDB, one for PostgreSQL.
type server struct {
	dsn     string
	bare    string // the name of the driver that you use today
	version string
	table   string

	key     string           // the lock, as lockdb's users name it
	options []lockctx.Option // on PostgreSQL: which advisory lock that is
	lock    string           // the lock in SQL: taken if it is free
	unlock  string
	yes, no string // what those two answer
	me      string // the connection's number
}

// look asks the server what it is. n is in the names of the lock and the table.
func look(ctx context.Context, dsn string, n int64) (server, error) {
	s := server{dsn: dsn, bare: "mysql"}
	s.table = fmt.Sprintf("quickstart_%d", n)
	s.key = fmt.Sprintf("order:%d", n)
	s.lock = fmt.Sprintf("GET_LOCK('%s', 0)", s.key)
	s.unlock = fmt.Sprintf("RELEASE_LOCK('%s')", s.key)
	s.yes, s.no, s.me = "1", "0", "CONNECTION_ID()"

	db, err := sql.Open("lockdb", dsn)
	if err != nil {
		return s, err
	}
	defer db.Close()
	if isPostgres(ctx, db) {
		s.bare = "pgx"
		s.lock = fmt.Sprintf("pg_try_advisory_lock(%d)", n)
		s.unlock = fmt.Sprintf("pg_advisory_unlock(%d)", n)
		s.yes, s.no, s.me = "true", "false", "pg_backend_pid()"
		s.options = []lockctx.Option{lockctx.AdvisoryID(n)} // else it is a hash of the key
	}
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&s.version); err != nil {
		return s, err
	}
	s.version, _, _ = strings.Cut(s.version, " (") // and on what it was built, and how
	return s, nil
}

// isPostgres looks through lockdb at the driver below it.
func isPostgres(ctx context.Context, db *sql.DB) bool {
	c, err := db.Conn(ctx)
	if err != nil {
		return false // the next statement tells
	}
	defer c.Close()
	found := false
	_ = c.Raw(func(dc any) error {
		_, found = dc.(interface{ Raw() driver.Conn }).Raw().(interface{ Conn() *pgx.Conn })
		return nil
	})
	return found
}

// open opens the server with the bare driver, as any program does.
func (s server) open() (*sql.DB, error) {
	db, err := sql.Open(s.bare, s.dsn)
	if err != nil {
		return nil, fmt.Errorf("the driver %q, which shows the bug, must be able to read the DSN, too: %w", s.bare, err)
	}
	return db, nil
}

// createTable makes the table that the story works on. drop removes it, also
// when ctx has ended.
func (s server) createTable(ctx context.Context) (drop func() error, err error) {
	db, err := s.open()
	if err != nil {
		return nil, err
	}
	drop = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		defer db.Close()
		_, err := db.ExecContext(ctx, "DROP TABLE "+s.table)
		return err
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE "+s.table+" (id int PRIMARY KEY, n int NOT NULL)"); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("make a table to work on: %w", err)
	}
	if _, err := db.ExecContext(ctx, "INSERT INTO "+s.table+" VALUES (1, 0)"); err != nil {
		_ = drop()
		return nil, err
	}
	return drop, nil
}

// querier is a *sql.DB, a *sql.Conn or a *sql.Tx.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// ask evaluates a function of the server, and tells on which connection.
func (s server) ask(ctx context.Context, q querier, function string) (answer string, connection int64, err error) {
	var value sql.NullString
	err = q.QueryRowContext(ctx, "SELECT "+function+", "+s.me).Scan(&value, &connection)
	if answer = value.String; !value.Valid {
		answer = "NULL"
	}
	return answer, connection, err
}

// step is ask where only one answer fits the story, which it tells.
func (s server) step(ctx context.Context, q querier, p *page, function, want, meaning string) (connection int64, err error) {
	got, connection, err := s.ask(ctx, q, function)
	if err != nil {
		return 0, err
	}
	p.on(connection, function+" = "+got, meaning)
	if got != want {
		return 0, fmt.Errorf("%s answered %s, not %s", function, got, want)
	}
	return connection, nil
}

// where tells which connection q runs on.
func (s server) where(ctx context.Context, q querier) (connection int64, err error) {
	_, connection, err = s.ask(ctx, q, "1")
	return connection, err
}
