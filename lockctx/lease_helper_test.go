package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// forLong is the TTL of leases that are not to expire in a test.
const forLong = time.Minute

// leaseRow is a row of the table of leases.
type leaseRow struct {
	owner string
	token int64
	left  time.Duration // until the expiry, by the database's clock; not positive if it is free
}

// leaseTable is the table lockdb_lease of the view's database, as a client sees it who knows nothing of lockdb.
type leaseTable struct {
	t    testing.TB
	s    *dbtest.Server
	bare *sql.DB
}

func newLeaseTable(t testing.TB, view *dbtest.Server) *leaseTable {
	t.Helper()
	bare := view.Open(t)
	bare.SetMaxOpenConns(2)
	return &leaseTable{t, view, bare}
}

// look reads the row of the key.
func (lt *leaseTable) look(key string) (row leaseRow, found bool) {
	lt.t.Helper()
	query, arg := "SELECT owner, token, expires_us - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM lockdb_lease WHERE lease_key = ?", lockName(lt.t, key)
	if !lt.s.IsMySQL() {
		query = "SELECT owner, token, (extract(epoch FROM expires_at - clock_timestamp()) * 1000000)::bigint FROM lockdb_lease WHERE lease_key = $1"
	}
	var micros int64
	err := lt.bare.QueryRowContext(context.Background(), query, arg).Scan(&row.owner, &row.token, &micros)
	if errors.Is(err, sql.ErrNoRows) {
		return row, false
	}
	require.NoError(lt.t, err)
	row.left = time.Duration(micros) * time.Microsecond
	return row, true
}

// isHeld tells whether the row says that somebody holds the lease.
func (lt *leaseTable) isHeld(key string) bool {
	lt.t.Helper()
	row, found := lt.look(key)
	return found && row.left > 0
}

// exec runs a statement, of two that for the server.
func (lt *leaseTable) exec(mysql, postgres string) {
	lt.t.Helper()
	query := mysql
	if !lt.s.IsMySQL() {
		query = postgres
	}
	_, err := lt.bare.ExecContext(context.Background(), query)
	require.NoError(lt.t, err)
}

// steal has another owner take the lease over, live as it is, and returns its token.
func (lt *leaseTable) steal(key string) (token int64) {
	lt.t.Helper()
	name := lockName(lt.t, key)
	lt.exec("UPDATE lockdb_lease SET owner = 'thief', token = token + 1, expires_us = expires_us + 3600000000 WHERE lease_key = '"+name+"'",
		"UPDATE lockdb_lease SET owner = 'thief', token = token + 1, expires_at = expires_at + interval '1 hour' WHERE lease_key = '"+name+"'")
	row, found := lt.look(key)
	require.True(lt.t, found)
	return row.token
}

// waitForLease acquires on a goroutine of its own and returns when that waits.
func waitForLease(ctx context.Context, t testing.TB, db *sql.DB, key string, opts ...lockctx.Option) <-chan grant {
	t.Helper()
	return waitIn(ctx, t, "(*wait).wait", db, key, opts...)
}

// awaitRenewal waits for a renewal that comes after the call.
func (lt *leaseTable) awaitRenewal(key string) {
	lt.t.Helper()
	first, found := lt.look(key)
	require.True(lt.t, found)
	begun := time.Now()
	require.Eventually(lt.t, func() bool {
		row, found := lt.look(key)
		return found && row.left+time.Since(begun) > first.left+2*time.Millisecond
	}, promptly, time.Millisecond, "no renewal")
}

// conflict tells whether a transaction met another one: it may be tried again.
func conflict(err error) bool {
	var m *mysql.MySQLError
	if errors.As(err, &m) {
		return m.Number == 1213 || m.Number == 1205 || m.Number == 1020
	}
	var p *pgconn.PgError
	return errors.As(err, &p) && (p.Code == "40001" || p.Code == "40P01" || p.Code == "55P03")
}

// atFence tells whether it was the server that found the lease gone, at Commit.
func atFence(err error) bool { return strings.Contains(err.Error(), "at its COMMIT") }

// expire lets the lease's time be over since a moment.
func (lt *leaseTable) expire(key string) {
	lt.t.Helper()
	name := lockName(lt.t, key)
	lt.exec("UPDATE lockdb_lease SET expires_us = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - 1000 WHERE lease_key = '"+name+"'",
		"UPDATE lockdb_lease SET expires_at = clock_timestamp() - interval '1 millisecond' WHERE lease_key = '"+name+"'")
}

const lasting = 30 * time.Second // the TTL of leases that are not to expire

// queueUp acquires on a goroutine of its own and returns when one more of this process waits for the key.
func queueUp(t testing.TB, db *sql.DB, key string, opts ...lockctx.Option) <-chan grant {
	t.Helper()
	before := waitersHere(t, db, key)
	granted := async(func() grant {
		lk, err := lockctx.Acquire(testCtx(t), db, key, opts...)
		return grant{lk, err, time.Now()}
	})
	require.Eventually(t, func() bool { return waitersHere(t, db, key) > before }, promptly, time.Millisecond/4)
	return granted
}

// waitersHere are those of this process who wait for the key.
func waitersHere(t testing.TB, db *sql.DB, key string) int {
	t.Helper()
	all, err := lockctx.Held(context.Background(), db)
	require.NoError(t, err)
	for _, h := range all {
		if h.Key == key {
			return h.Waiters
		}
	}
	return 0
}

// eachAndPgBouncer is dbtest.Each through PgBouncer, too.
func eachAndPgBouncer(t *testing.T, f func(t *testing.T, s *dbtest.Server)) {
	t.Helper()
	dbtest.Each(t, f)
	t.Run(string(dbtest.PgBouncer), func(t *testing.T) { f(t, ownPgBouncer(t)) })
}
