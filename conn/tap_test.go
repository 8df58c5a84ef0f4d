package conn_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/conn"
	"github.com/lockdb/lockdb/internal/dbtest"
)

// tap sees when a driver writes to its server and when it waits for an answer.
type tap struct {
	relay *dbtest.Relay
	dsn   string

	writes  atomic.Int64
	reads   atomic.Int64 // begun
	waiting atomic.Int64 // begun and not ended
}

var taps atomic.Int64

// newTap stands between a driver and the server. Its dsn is for the bare driver
// and for lockdb alike.
func newTap(t *testing.T, s *dbtest.Server) *tap {
	t.Helper()
	tp := &tap{relay: s.Relay(t)}
	if s.IsMySQL() {
		network := fmt.Sprintf("tap%d", taps.Add(1))
		mysql.RegisterDialContext(network, func(ctx context.Context, addr string) (net.Conn, error) {
			return tp.dial(ctx, "tcp", addr)
		})
		t.Cleanup(func() { mysql.DeregisterDialContext(network) })
		cfg, err := mysql.ParseDSN(tp.relay.DSN())
		require.NoError(t, err)
		cfg.Net = network
		tp.dsn = cfg.FormatDSN()
		return tp
	}
	cfg, err := pgx.ParseConfig(tp.relay.DSN())
	require.NoError(t, err)
	cfg.DialFunc = tp.dial
	tp.dsn = stdlib.RegisterConnConfig(cfg)
	t.Cleanup(func() { stdlib.UnregisterConnConfig(tp.dsn) })
	return tp
}

// open opens the server by way of the tap, with lockdb or with the bare driver.
func (tp *tap) open(t *testing.T, s *dbtest.Server, lockdb bool) *sql.DB {
	t.Helper()
	if lockdb {
		return openDSN(t, tp.dsn)
	}
	db, err := sql.Open(s.Driver(), tp.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func (tp *tap) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &tapped{c, tp}, nil
}

// whenAsked calls f, once, when the driver has sent something or, if it sends
// nothing, when it has waited in vain. The network is cut. It counts looks, not
// time: that also passes while this process stands still.
func (tp *tap) whenAsked(f func()) {
	writes, reads := tp.writes.Load(), tp.reads.Load()
	go func() {
		defer f()
		inVain := 0
		for deadline := time.Now().Add(10 * time.Second); inVain < 50 && time.Now().Before(deadline); inVain++ {
			now := tp.reads.Load()
			if tp.writes.Load() > writes {
				return
			}
			if now != reads || tp.waiting.Load() == 0 {
				reads, inVain = now, 0
			}
			<-time.After(time.Millisecond)
		}
	}()
}

type tapped struct {
	net.Conn
	tap *tap
}

func (c *tapped) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.tap.writes.Add(1)
	return n, err
}

func (c *tapped) Read(b []byte) (int, error) {
	c.tap.reads.Add(1)
	c.tap.waiting.Add(1)
	defer c.tap.waiting.Add(-1)
	return c.Conn.Read(b)
}

// pinged has the keeper ping a lock session, as it does in the end of one that is
// idle; nothing else may be sent meanwhile.
func (tp *tap) pinged(t *testing.T, db *sql.DB) {
	t.Helper()
	k, err := conn.KeeperOf(testCtx(t), db)
	require.NoError(t, err)
	writes := tp.writes.Load()
	k.KeepAliveNow()
	require.Eventually(t, func() bool { return tp.writes.Load() > writes }, 20*time.Second, time.Millisecond)
}
