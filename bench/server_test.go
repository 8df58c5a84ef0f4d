package bench

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"log/slog"
	"testing"
	"time"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

// onServers runs fn on each real server.
func onServers(b *testing.B, fn func(b *testing.B, s server)) {
	for _, kind := range kinds {
		b.Run("server="+string(kind), func(b *testing.B) {
			fn(b, newServer(b, dbtest.Shared(b, kind)))
		})
	}
}

// overNetworks runs fn on the server as it is, and at the end of a network with a
// round-trip time of 1 ms, where round trips show.
func (s server) overNetworks(b *testing.B, fn func(b *testing.B, s server)) {
	for _, rtt := range []time.Duration{0, time.Millisecond} {
		b.Run("rtt="+rtt.String(), func(b *testing.B) { fn(b, s.behind(b, rtt)) })
	}
}

// server is a server with a key of the benchmark's own and the SQL of who locks
// by hand.
type server struct {
	*dbtest.Server
	addr string // where it is reached: behind a relay, not its own
	key  string
	hand
}

// hand is the SQL of who locks by hand.
type hand struct {
	try, unlock         statement // literals, as those write them who count round trips
	wait                statement // literals, too
	tryArgs             statement // placeholders, as most write them; not on PostgreSQL
	waitArgs, unlockArg statement // placeholders; on PostgreSQL literals, where it makes no difference
}

type statement struct {
	query string
	args  []any
}

func newServer(b *testing.B, s *dbtest.Server) server {
	key := dbtest.Key(b)
	return server{Server: s, key: key, hand: newHand(s.IsMySQL(), key)}
}

// newHand is for a lock beside lockdb's of that key.
func newHand(mysql bool, key string) hand {
	literals := func(format string, what any) statement { return statement{query: fmt.Sprintf(format, what)} }
	if !mysql {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(key))
		id := 1<<62 | int64(hash.Sum32()) // lockdb's are hashes of 64 bits
		h := hand{
			try:    literals("SELECT pg_try_advisory_lock(%d)", id),
			wait:   literals("SELECT pg_advisory_lock(%d) IS NOT NULL", id),
			unlock: literals("SELECT pg_advisory_unlock(%d)", id),
		}
		h.waitArgs, h.unlockArg = h.wait, h.unlock
		return h
	}
	name := key + ":hand"
	return hand{
		try:       literals("SELECT GET_LOCK('%s', 0)", name),
		wait:      literals("SELECT GET_LOCK('%s', 60)", name),
		unlock:    literals("SELECT RELEASE_LOCK('%s')", name),
		tryArgs:   statement{"SELECT GET_LOCK(?, ?)", []any{name, 0}},
		waitArgs:  statement{"SELECT GET_LOCK(?, ?)", []any{name, 60}},
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
func (s server) open(b *testing.B, opts ...driver.Option) *sql.DB {
	b.Helper()
	c, err := driver.OpenConnector(s.dsn(), append(opts, driver.WithLogger(slog.New(slog.DiscardHandler)))...)
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
