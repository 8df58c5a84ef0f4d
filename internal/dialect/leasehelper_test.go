package dialect_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/dialect"
)

// table is a table of leases on a server, and how to come to it.
type table struct {
	*dbtest.Server
	dialect.Leases
	d   dialect.Dialect
	dsn string
	// known: members keep statements prepared, and say of each row that it is there.
	known bool
}

// eachTable runs fn on all servers, and through PgBouncer, each with an empty table in a fresh database;
// and where that is another way, with members that know more.
func eachTable(t *testing.T, fn func(t *testing.T, tab *table)) {
	t.Helper()
	eachServer(t, func(t *testing.T, s *dbtest.Server) {
		fn(t, newTable(t, s.CreateDatabase(t)))
		if s.Kind() != dbtest.PgBouncer {
			t.Run("known", func(t *testing.T) {
				tab := newTable(t, s.CreateDatabase(t))
				tab.known = true
				fn(t, tab)
			})
		}
	})
}

func eachServer(t *testing.T, fn func(t *testing.T, s *dbtest.Server)) {
	t.Helper()
	kinds, err := dbtest.Selected()
	require.NoError(t, err)
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) { fn(t, dbtest.Shared(t, kind)) })
	}
}

func dialectOf(s *dbtest.Server) dialect.Dialect {
	if s.IsMySQL() {
		return dialect.MySQL
	}
	return dialect.Postgres
}

func newTable(t testing.TB, s *dbtest.Server) *table {
	t.Helper()
	tab := &table{Server: s, d: dialectOf(s), dsn: s.DSN()}
	q := tab.bare(t)
	leases := tab.d.Leases("lockdb_lease")
	require.NoError(t, leases.Create(t.Context(), q, dialect.LeaseServer{}))
	found, err := leases.Find(t.Context(), q)
	require.NoError(t, err)
	tab.Leases = found
	return tab
}

// bare is a session as a user has it.
func (tab *table) bare(t testing.TB) *querier { return session(t, tab.Driver(), tab.dsn) }

// afterwards runs statements in a Cleanup, when the test's context has ended.
func (tab *table) afterwards(t testing.TB, statements ...string) {
	t.Helper()
	db, err := sql.Open(tab.Driver(), tab.DSN())
	require.NoError(t, err)
	defer db.Close()
	for _, s := range statements {
		_, err := db.ExecContext(context.Background(), s)
		require.NoError(t, err, s)
	}
}

// member is a session for lease statements, with what it needs for them.
type member struct {
	*querier
	*table
	s dialect.LeaseServer
}

// Claim implements dialect.Leases.
func (m *member) Claim(ctx context.Context, q dialect.Querier, s dialect.LeaseServer, l dialect.Lease, c dialect.Companion) (dialect.Grant, error) {
	l.Seen = l.Seen || m.known
	return m.Leases.Claim(ctx, q, s, l, c)
}

func (tab *table) member(t testing.TB) *member {
	t.Helper()
	q := tab.bare(t)
	q.prepares = tab.known
	s, err := tab.Setup(t.Context(), q, time.Minute)
	require.NoError(t, err)
	return &member{q, tab, s}
}

// claim claims, and again where others interfered, as the statements allow.
func (m *member) claim(ctx context.Context, l dialect.Lease, c dialect.Companion) (dialect.Grant, error) {
	return m.claimWhile(ctx, l, c, func(err error) bool { return m.Fault(err) == dialect.LeaseFaultRetry })
}

// claimWhile claims, and again while the error is such a one.
func (m *member) claimWhile(ctx context.Context, l dialect.Lease, c dialect.Companion, again func(error) bool) (dialect.Grant, error) {
	taken := false
	for {
		g, err := m.Claim(ctx, m.querier, m.s, l, c)
		taken = taken || g.Taken
		if err == nil || !again(err) {
			g.Taken = taken
			return g, err
		}
		if taken {
			c.Mode = dialect.CompanionIgnored
		}
	}
}

// tookTooLong tells of a statement that gave up its wait for a row after a second: on a
// machine that has too much to do, whoever keeps the row may need longer.
func tookTooLong(err error) bool {
	var my *mysql.MySQLError
	var pg *pgconn.PgError
	return errors.As(err, &my) && my.Number == 1205 || errors.As(err, &pg) && pg.Code == "55P03"
}

// patient has the session wait longer for rows.
func (m *member) patient(t testing.TB) *member {
	t.Helper()
	if !m.s.Pooled {
		m.run(t, m.sql("SET SESSION innodb_lock_wait_timeout=50", "SET lock_timeout='50s'"))
	}
	return m
}

// untilItEnds has what may come too early, as the end of a statement that has not begun to
// wait yet, happen until the other has ended.
func untilItEnds[T any](ended <-chan T, happen func()) T {
	for {
		happen()
		select {
		case v := <-ended:
			return v
		case <-time.After(time.Second):
		}
	}
}

// take claims a lease and has it.
func (m *member) take(t testing.TB, key, owner string, ttl time.Duration) dialect.Lease {
	t.Helper()
	l := dialect.Lease{Key: key, Owner: owner, TTL: ttl}
	g, err := m.claim(t.Context(), l, dialect.Companion{})
	require.NoError(t, err)
	require.True(t, g.Granted, "%+v", g)
	require.Positive(t, g.Token)
	l.Token = g.Token
	return l
}

func (m *member) release(t testing.TB, l dialect.Lease) {
	t.Helper()
	released, freed, err := m.Release(t.Context(), m.querier, m.s, l, nil)
	require.NoError(t, err)
	require.True(t, released)
	require.False(t, freed)
}

func (m *member) renew(t testing.TB, leases ...dialect.Lease) int {
	t.Helper()
	n, err := m.Renew(t.Context(), m.querier, m.s, leases)
	require.NoError(t, err)
	return n
}

func (m *member) prune(t testing.TB, age time.Duration, limit int, want int64) {
	t.Helper()
	n, err := m.Prune(t.Context(), m.querier, m.s, age, limit)
	require.NoError(t, err)
	require.Equal(t, want, n)
}

func (m *member) look(t testing.TB, key string) (dialect.LeaseRow, bool) {
	t.Helper()
	row, found, err := m.Look(t.Context(), m.querier, key)
	require.NoError(t, err)
	return row, found
}

// companion is a session lock that no other test has.
func (tab *table) companion(t testing.TB, mode dialect.CompanionMode) dialect.Companion {
	t.Helper()
	name, err := tab.d.Resolve("", "companion:"+dbtest.Key(t))
	require.NoError(t, err)
	return dialect.Companion{Mode: mode, Name: name}
}

// sql picks the text for the server's family.
func (tab *table) sql(mysql, postgres string) string {
	if tab.IsMySQL() {
		return mysql
	}
	return postgres
}

func values[T any](args ...T) []driver.NamedValue {
	all := make([]driver.NamedValue, len(args))
	for i, a := range args {
		all[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return all
}

// run runs statements on the session.
func (q *querier) run(t testing.TB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		require.NoError(t, q.Exec(t.Context(), s), s)
	}
}
