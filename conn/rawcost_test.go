package conn_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/lockkey"
	"github.com/lockdb/lockdb/internal/sqlscan"
)

// plainTexts are statements of a usual length that cannot touch a lock, without
// and with a parameter. The second look has to go through theirs: a word stands in
// a string.
func plainTexts(t *testing.T, s *dbtest.Server) (one, with string) {
	t.Helper()
	one = "SELECT CAST(MAX(a.n) AS SIGNED) FROM (SELECT 1 AS n UNION ALL SELECT 1) AS a WHERE a.n <> LENGTH('GET_LOCK(')"
	with = "SELECT CAST(? AS SIGNED) FROM (SELECT 1 AS n) AS a WHERE a.n < LENGTH('RELEASE_LOCK(')"
	d := sqlscan.MySQL
	if !s.IsMySQL() {
		d = sqlscan.Postgres
		one = "SELECT CAST(MAX(a.n) AS int) FROM (SELECT 1 AS n UNION ALL SELECT 1) AS a WHERE a.n <> LENGTH('pg_advisory_lock(')"
		with = "SELECT $1::int FROM (SELECT 1 AS n) AS a WHERE a.n < LENGTH($$pg_advisory_unlock($$)"
	}
	require.Zero(t, sqlscan.Scan(d, one))
	require.Zero(t, sqlscan.Scan(d, with))
	return one, with
}

// parkOne takes a lock by text on a goroutine that lives until the test ends.
func parkOne(t *testing.T, s *dbtest.Server, db *sql.DB) {
	t.Helper()
	query, arg := "SELECT GET_LOCK(?, 0)", any(nil)
	var err error
	if s.IsMySQL() {
		arg, err = lockkey.Name("", dbtest.Key(t))
	} else {
		query = "SELECT pg_try_advisory_lock($1)"
		arg, err = lockkey.ID("", dbtest.Key(t))
	}
	require.NoError(t, err)
	granted, ended := make(chan bool), make(chan struct{})
	go func() {
		var yes bool
		_ = db.QueryRow(query, arg).Scan(&yes)
		granted <- yes
		<-ended
	}()
	t.Cleanup(func() { close(ended) })
	require.True(t, <-granted)
}

func TestNothingIsAllocatedByStatementsWithoutALockWhileOneIsParked(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		bare, db := s.Open(t), open(t, s)
		bare.SetMaxOpenConns(1)
		db.SetMaxOpenConns(1)
		parkOne(t, s, db)
		sameAllocs(t, 11, bare, db, allocCases(plainTexts(t, s)))
	})
}

// wire counts what a client sends.
type wire struct{ writes, bytes atomic.Int64 }

type wireConn struct {
	net.Conn
	*wire
}

func (c wireConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	c.bytes.Add(int64(len(b)))
	return c.Conn.Write(b)
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return wireConn{c, w}, nil
}

// sent is how many writes and bytes a step takes.
func (w *wire) sent(t *testing.T, db *sql.DB, step allocCase) [2]int64 {
	t.Helper()
	require.NoError(t, step.do(testCtx(t), db)) // it may dial, and prepare what it keeps
	writes, bytes := w.writes.Load(), w.bytes.Load()
	for range 3 {
		require.NoError(t, step.do(testCtx(t), db))
	}
	return [2]int64{w.writes.Load() - writes, w.bytes.Load() - bytes}
}

// counted is the real driver's connector, with its connections counted.
func (w *wire) counted(t *testing.T, s *dbtest.Server) sqldriver.Connector {
	t.Helper()
	if s.IsMySQL() {
		config, err := mysql.ParseDSN(s.DSN())
		require.NoError(t, err)
		config.DialFunc = w.dial
		c, err := mysql.NewConnector(config)
		require.NoError(t, err)
		return c
	}
	config, err := pgx.ParseConfig(s.DSN())
	require.NoError(t, err)
	config.DialFunc = w.dial
	return stdlib.GetConnector(*config)
}

func TestNothingIsSentBesideStatementsWithoutALock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for name, parked := range map[string]bool{"never a lock": false, "one parked": true} {
			t.Run(name, func(t *testing.T) {
				var wires [2]wire
				c, err := driver.NewConnector(wires[1].counted(t, s), driver.WithTTL(time.Hour)) // which looks for locks (lockdb_raw=park), and pings seldom
				require.NoError(t, err)
				pools := [2]*sql.DB{sql.OpenDB(wires[0].counted(t, s)), sql.OpenDB(c)}
				for _, p := range pools {
					defer p.Close()
					p.SetMaxOpenConns(1)
				}
				if parked {
					parkOne(t, s, pools[1])
				}
				for _, step := range allocCases(plainTexts(t, s)) {
					var sent [2][2]int64
					// pgx pings a connection that was idle for a second, as on a busy machine.
					for tries := 0; tries == 0 || tries < 5 && sent[0] != sent[1]; tries++ {
						for i, p := range pools {
							sent[i] = wires[i].sent(t, p, step)
						}
					}
					require.NotZero(t, sent[0][0], step.name)
					require.Equal(t, sent[0], sent[1], "writes and bytes of %s", step.name)
				}
			})
		}
	})
}

// questions are the session's statements so far, as the server counts them.
func questions(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	var name string
	require.NoError(t, db.QueryRow("SHOW SESSION STATUS LIKE 'Questions'").Scan(&name, &n))
	return n
}

func TestTheServerCountsNoMoreStatementsThanWithoutLockdb(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		if !s.IsMySQL() {
			return // it counts no statements of a session
		}
		var counts [2]int
		for i, db := range []*sql.DB{s.Open(t), open(t, s)} {
			db.SetMaxOpenConns(1)
			if i == 1 {
				parkOne(t, s, db)
			}
			before := questions(t, db)
			for _, step := range allocCases(plainTexts(t, s)) {
				for range 10 {
					require.NoError(t, step.do(testCtx(t), db))
				}
			}
			counts[i] = questions(t, db) - before
		}
		require.Greater(t, counts[0], 100)
		require.Equal(t, counts[0], counts[1])
	})
}
