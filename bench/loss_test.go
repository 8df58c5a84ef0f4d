package bench

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockdb/lockdb/lockctx"
)

// BenchmarkLoss measures the time from the moment at which an operator's KILL is
// sent until the context of the lock whose session it ends has ended. The goal is a
// 99th percentile of 10 ms.
//
// In turn with it, bare: until somebody who does nothing but wait at the socket of
// the killed session, where the lock was taken by hand, has read its end. It is the
// limit, for the lock may be held until the server closes the connection.
func BenchmarkLoss(b *testing.B) {
	onServers(b, func(b *testing.B, s server) {
		db, admin, bare := s.open(b), s.conn(b), newRawSocket(b, s)
		contenders := []struct {
			name  string
			kill  func() time.Duration
			times histogram
		}{
			{"", func() time.Duration { return s.killLock(b, db, admin) }, make(histogram)},
			{"bare-", func() time.Duration { return s.killSocket(b, bare, admin) }, make(histogram)},
		}
		for b.Loop() {
			for _, i := range rand.Perm(len(contenders)) {
				contenders[i].times.note(contenders[i].kill())
			}
		}
		b.ReportMetric(0, "ns/op")
		for _, c := range contenders {
			c.times.report(b, c.name)
		}
	})
}

// killLock kills the session of a lock of lockdb's, and returns how long it took until
// its context ended.
func (s server) killLock(b *testing.B, db *sql.DB, admin *sql.Conn) time.Duration {
	ctx := context.Background()
	lk, err := lockctx.Acquire(ctx, db, s.key)
	must(b, err)
	held, err := lockctx.Held(ctx, db)
	must(b, err)
	took := s.kill(b, admin, held[0].Session, func() { <-lk.Context().Done() })
	_ = lk.Close() // says that it was lost
	return took
}

// killSocket kills a session of the bare driver's that has a lock by hand, and returns
// how long it took until its socket was read to the end.
func (s server) killSocket(b *testing.B, bare *rawSocket, admin *sql.Conn) time.Duration {
	ctx := context.Background()
	db := sql.OpenDB(bare.connector)
	defer db.Close()
	var session int64
	must(b, db.QueryRowContext(ctx, s.identity()).Scan(&session))
	_, err := db.ExecContext(ctx, s.try.query)
	must(b, err)
	return s.kill(b, admin, session, func() {
		buf := make([]byte, 1024)
		for err == nil { // PostgreSQL gives its reason first
			_, err = bare.last.Read(buf)
		}
	})
}

// kill returns how long after KILL was sent wait returned. That is not asked after the
// answer to KILL, which can be the later one.
func (s server) kill(b *testing.B, admin *sql.Conn, session int64, wait func()) time.Duration {
	kill := "SELECT pg_terminate_backend(%d)"
	if s.IsMySQL() {
		kill = "KILL %d"
	}
	ended := make(chan time.Time, 1)
	go func() {
		wait()
		ended <- time.Now()
	}()
	began := time.Now()
	_, err := admin.ExecContext(context.Background(), fmt.Sprintf(kill, session))
	must(b, err)
	return (<-ended).Sub(began)
}

func (s server) identity() string {
	if s.IsMySQL() {
		return "SELECT CONNECTION_ID()"
	}
	return "SELECT pg_backend_pid()"
}

// rawSocket is a connector of the bare driver's, and the last socket that it dialled.
type rawSocket struct {
	connector driver.Connector
	last      net.Conn
}

func newRawSocket(b *testing.B, s server) *rawSocket {
	r := new(rawSocket)
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		r.last = c
		return c, err
	}
	if s.IsMySQL() {
		cfg, err := mysql.ParseDSN(s.dsn())
		must(b, err)
		cfg.DialFunc = dial
		r.connector, err = mysql.NewConnector(cfg)
		must(b, err)
		return r
	}
	cfg, err := pgx.ParseConfig(s.dsn())
	must(b, err)
	cfg.DialFunc = dial
	r.connector = stdlib.GetConnector(*cfg)
	return r
}
