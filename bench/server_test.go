package bench

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

// onServers runs fn on each real server.
func onServers(b *testing.B, fn func(b *testing.B, s server)) {
	for _, kind := range []dbtest.Kind{dbtest.MySQL, dbtest.MariaDB, dbtest.Postgres} {
		b.Run("server="+string(kind), func(b *testing.B) {
			fn(b, newServer(b, dbtest.Shared(b, kind)))
		})
	}
}

// server is a server with a key of the benchmark's own and the SQL of who locks
// by hand.
type server struct {
	*dbtest.Server
	addr               string // where it is reached: behind a relay, not its own
	key                string
	try, unlock        statement // literals, as those write them who count round trips
	wait               statement // literals, too
	tryArgs, unlockArg statement // placeholders, as most write them; not on PostgreSQL
}

type statement struct {
	query string
	args  []any
}

func newServer(b *testing.B, s *dbtest.Server) server {
	key := dbtest.Key(b)
	literals := func(format string, what any) statement { return statement{query: fmt.Sprintf(format, what)} }
	if !s.IsMySQL() {
		const id = 1 << 62 // lockdb's are hashes
		return server{
			Server: s, key: key,
			try:    literals("SELECT pg_try_advisory_lock(%d)", id),
			wait:   literals("SELECT pg_advisory_lock(%d) IS NOT NULL", id),
			unlock: literals("SELECT pg_advisory_unlock(%d)", id),
		}
	}
	name := key + ":hand"
	return server{
		Server: s, key: key,
		try:       literals("SELECT GET_LOCK('%s', 0)", name),
		wait:      literals("SELECT GET_LOCK('%s', 60)", name),
		unlock:    literals("SELECT RELEASE_LOCK('%s')", name),
		tryArgs:   statement{"SELECT GET_LOCK(?, ?)", []any{name, 0}},
		unlockArg: statement{"SELECT RELEASE_LOCK(?)", []any{name}},
	}
}

// behind is the server at the end of a network with that round-trip time.
func (s server) behind(b *testing.B, rtt time.Duration) server {
	if rtt > 0 {
		relay := s.Relay(b)
		relay.SetDelay(rtt / 2)
		s.addr = relay.Addr()
	}
	return s
}

func (s server) dsn() string {
	if s.addr == "" {
		return s.DSN()
	}
	return s.DSNAt(s.addr)
}

// bare opens the server with the bare driver.
func (s server) bare(b *testing.B) *sql.DB {
	b.Helper()
	db, err := sql.Open(s.Driver(), s.dsn())
	must(b, err)
	b.Cleanup(func() { _ = db.Close() })
	return db
}

// open opens the server through lockdb.
func (s server) open(b *testing.B) *sql.DB {
	b.Helper()
	c, err := driver.OpenConnector(s.dsn())
	must(b, err)
	db := sql.OpenDB(c)
	b.Cleanup(func() { _ = db.Close() })
	return db
}

// conn opens one connection with the bare driver.
func (s server) conn(b *testing.B) *sql.Conn {
	b.Helper()
	c, err := s.bare(b).Conn(context.Background())
	must(b, err)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// byHand takes and releases a lock with two statements on a connection kept for it.
func byHand(ctx context.Context, c *sql.Conn, lock, unlock statement) func() error {
	return func() error {
		if err := yes(ctx, c, lock); err != nil {
			return err
		}
		return yes(ctx, c, unlock)
	}
}

// yes runs a lock statement, which must answer yes.
func yes(ctx context.Context, c *sql.Conn, s statement) error {
	var ok bool
	if err := c.QueryRowContext(ctx, s.query, s.args...).Scan(&ok); err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s: no", s.query)
	}
	return nil
}

// numbers makes a table with a row for each contender, and returns the statements
// that add 1 to them.
func (s server) numbers(b *testing.B, n int) (updates []string) {
	b.Helper()
	db := s.Open(b)
	exec := func(query string) {
		_, err := db.Exec(query)
		must(b, err)
	}
	exec("CREATE TABLE numbers (id int PRIMARY KEY, n int NOT NULL)")
	for id := range n {
		exec(fmt.Sprintf("INSERT INTO numbers VALUES (%d, 0)", id))
		updates = append(updates, fmt.Sprintf("UPDATE numbers SET n = n + 1 WHERE id = %d", id))
	}
	return updates
}
