package dialect_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/dialect"
)

// story is what is true of every lease, whatever the sessions are like.
func (m *member) story(t *testing.T) {
	t.Helper()
	first := m.take(t, "k", "a", time.Minute)
	g, err := m.claim(t.Context(), dialect.Lease{Key: "k", Owner: "b", TTL: time.Minute}, dialect.Companion{})
	require.NoError(t, err)
	require.False(t, g.Granted)
	require.InDelta(t, time.Minute, g.Left, float64(20*time.Second))
	require.Equal(t, 1, m.renew(t, first))
	require.NoError(t, m.fenced(t, first))
	m.release(t, first)
	require.Zero(t, m.renew(t, first))
	second := m.take(t, "k", "b", time.Minute)
	require.Greater(t, second.Token, first.Token)
	require.ErrorIs(t, m.fenced(t, first), dialect.ErrMoved)
	moved, err := m.Moved(t.Context(), m.querier, m.s, []dialect.Lease{first, second})
	require.NoError(t, err)
	require.Equal(t, []int{0}, moved)
	m.release(t, second)
	m.release(t, second)
	m.prune(t, 0, 10, 1)

	other := m.member(t) // nothing of it waits for a COMMIT
	_, found := other.look(t, "k")
	require.False(t, found)
}

func (m *member) fenced(t *testing.T, l dialect.Lease) error {
	m.run(t, m.sql("START TRANSACTION", "BEGIN"))
	err := m.Fence(t.Context(), m.querier, m.s, []dialect.Lease{l})
	m.run(t, "ROLLBACK")
	return err
}

func TestNothingInTheDSNChangesLeases(t *testing.T) {
	mysql := []string{
		"clientFoundRows=true", "interpolateParams=true", "clientFoundRows=true&interpolateParams=true", "multiStatements=true",
		"autocommit=0", "time_zone=%27%2B09%3A30%27&loc=America%2FNew_York", "sql_mode=%27%27", "sql_mode=%27ANSI%2CNO_BACKSLASH_ESCAPES%27",
		"sql_mode=%27TRADITIONAL%27", "sql_safe_updates=1&sql_select_limit=1", "parseTime=false", "charset=latin1",
		"collation=utf8mb4_bin", "autocommit=0&clientFoundRows=true&sql_mode=%27%27",
	}
	postgres := []string{
		"timezone=Asia/Kathmandu", "default_query_exec_mode=exec", "default_query_exec_mode=simple_protocol", "default_query_exec_mode=cache_describe",
		"default_transaction_isolation=serializable", "default_transaction_isolation=repeatable read", "default_transaction_read_only=on",
		"synchronous_commit=off", "datestyle=SQL, DMY", "intervalstyle=sql_standard", "bytea_output=escape", "extra_float_digits=0",
		"lock_timeout=1", "default_transaction_deferrable=on", "search_path=public",
	}
	eachTable(t, func(t *testing.T, tab *table) {
		options := mysql
		if !tab.IsMySQL() {
			options = postgres
		}
		for _, option := range options {
			if tab.Kind() == dbtest.PgBouncer && !strings.HasPrefix(option, "timezone") && !strings.HasPrefix(option, "datestyle") {
				continue // it knows only some, and the rest is the server's
			}
			t.Run(option, func(t *testing.T) {
				with := *tab
				with.dsn = dsnWith(t, tab, option)
				with.member(t).story(t)
			})
		}
	})
}

func dsnWith(t *testing.T, tab *table, option string) string {
	t.Helper()
	if tab.IsMySQL() {
		base, _, _ := strings.Cut(tab.dsn, "?")
		return base + "?" + option
	}
	u, err := url.Parse(tab.dsn)
	require.NoError(t, err)
	name, value, _ := strings.Cut(option, "=")
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	return u.String()
}

func TestSetupBoundsWaitsAndIdleness(t *testing.T) {
	eachDirect(t, func(t *testing.T, tab *table) {
		q := tab.bare(t)
		s, err := tab.Setup(t.Context(), q, 1500*time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, tab.Kind() == dbtest.MariaDB, s.MariaDB)
		require.Equal(t, tab.Kind() == dbtest.MariaDB, s.SnapshotIsolation, "the version that tests use knows it")
		row, err := q.QuerySimple(t.Context(), tab.sql("SELECT CONNECTION_ID(), @@wait_timeout, @@innodb_lock_wait_timeout, @@autocommit",
			"SELECT pg_backend_pid(), current_setting('idle_session_timeout'), current_setting('lock_timeout'), current_setting('transaction_isolation')"))
		require.NoError(t, err)
		require.Equal(t, tab.sql(fmt.Sprintf("[%d 2 1 1]", s.SessionID), fmt.Sprintf("[%d 1500ms 1s read committed]", s.SessionID)), fmt.Sprint(row))
		require.Eventually(t, func() bool { return q.Exec(t.Context(), "SELECT 1") != nil || !sleep(t, 2500*time.Millisecond) }, 20*time.Second, time.Millisecond)
	})
}

// sleep lets time pass in which the session is idle.
func sleep(t *testing.T, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
	return true
}

func TestSetupLeavesASessionBehindAPoolerAsItIs(t *testing.T) {
	tab := newTable(t, dbtest.Shared(t, dbtest.PgBouncer).CreateDatabase(t))
	m := tab.member(t)
	require.True(t, m.s.Pooled)
	settings := "SELECT string_agg(name||'='||setting, ' ' ORDER BY name) FROM pg_settings WHERE source='session' AND name NOT LIKE 'transaction%'"
	before, err := m.QuerySimple(t.Context(), settings)
	require.NoError(t, err)
	m.story(t)
	m.run(t, "DROP TABLE lockdb_lease")
	_, err = m.Claim(t.Context(), m.querier, m.s, dialect.Lease{Key: "k", Owner: "a", TTL: time.Minute}, dialect.Companion{})
	require.Equal(t, dialect.LeaseFaultNoTable, m.Fault(err), "%v", err)
	after, err := m.QuerySimple(t.Context(), settings)
	require.NoError(t, err)
	require.Equal(t, before, after)
	row, err := m.QuerySimple(t.Context(), "SELECT count(*) FROM pg_prepared_statements")
	require.NoError(t, err)
	require.EqualValues(t, 0, row[0])
	row, err = m.QuerySimple(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype='advisory' AND database=(SELECT oid FROM pg_database WHERE datname=current_database())")
	require.NoError(t, err)
	require.EqualValues(t, 0, row[0])
}
