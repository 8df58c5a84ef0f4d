package dialect_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dialect"
)

func TestRenewalGivesEachLeaseItsOwnTTL(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		m := tab.member(t)
		leases := []dialect.Lease{
			m.take(t, "#ns/a:b.c-d_e", "x", time.Minute),
			m.take(t, "a", "y", time.Minute),
			m.take(t, "null", "null", time.Minute),
		}
		for i := range leases {
			leases[i].TTL = time.Duration(i+1) * time.Hour
		}
		require.Equal(t, 3, m.renew(t, leases...))
		for _, l := range leases {
			row, _ := m.look(t, l.Key)
			require.InDelta(t, l.TTL, row.Left, float64(10*time.Second), l.Key)
			require.Equal(t, l.Token, row.Token)
			require.Equal(t, l.Owner, row.Owner)
		}
	})
}

func TestRenewalPassesOverLeasesThatAreNotOnesOwnAnyMore(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		m, other := tab.member(t), tab.member(t)
		var leases []dialect.Lease
		for _, key := range []string{"deleted", "expired", "held", "released", "taken by itself", "taken over"} {
			leases = append(leases, m.take(t, strings.ReplaceAll(key, " ", "-"), "me", time.Minute))
		}
		m.run(t, "DELETE FROM lockdb_lease WHERE lease_key='deleted'",
			"UPDATE lockdb_lease SET expires_"+tab.sql("us=1", "at='2001-01-01'")+" WHERE lease_key='expired'")
		m.release(t, leases[3])
		m.take(t, leases[4].Key, "me", time.Minute)
		m.release(t, leases[5])
		taken := other.take(t, leases[5].Key, "other", time.Minute)

		require.Equal(t, 2, m.renew(t, leases...), "held, and the one that expired but that nobody took")
		moved, err := m.Moved(t.Context(), m.querier, m.s, leases)
		require.NoError(t, err)
		require.Equal(t, []int{0, 3, 4, 5}, moved)
		row, _ := m.look(t, "released")
		require.Negative(t, row.Left, "a renewal that came late has revived it")
		row, _ = m.look(t, taken.Key)
		require.Equal(t, dialect.LeaseRow{Owner: "other", Token: taken.Token, Left: row.Left}, row)
	})
}

// fill puts leases into the table by hand and returns every 20th of them.
func (m *member) fill(t testing.TB, rows int) (leases []dialect.Lease) {
	t.Helper()
	expiry := m.sql("9000000000000000", "'2100-01-01'")
	for first := 0; first < rows; first += 1000 {
		var values []string
		for i := first; i < first+1000; i++ {
			key := fmt.Sprintf("key:%06d", i)
			values = append(values, fmt.Sprintf("('%s','me',%d,%s)", key, i+1, expiry))
			if i%20 == 0 {
				leases = append(leases, dialect.Lease{Key: key, Owner: "me", Token: int64(i + 1), TTL: time.Minute})
			}
		}
		m.run(t, "INSERT INTO lockdb_lease VALUES "+strings.Join(values, ","))
	}
	return leases
}

// reads tells how many rows the session's statements have read so far, in this transaction on PostgreSQL.
func (m *member) reads(t testing.TB) (n int64) {
	t.Helper()
	if !m.IsMySQL() {
		row, err := m.QuerySimple(t.Context(), "SELECT seq_tup_read+idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname='lockdb_lease'")
		require.NoError(t, err)
		return row[0].(int64)
	}
	all, err := m.QueryAll(t.Context(), "SHOW SESSION STATUS LIKE 'Handler_read%'")
	require.NoError(t, err)
	for _, row := range all {
		one, err := strconv.ParseInt(row[1].(string), 10, 64)
		require.NoError(t, err)
		n += one
	}
	return n
}

func TestARenewalReadsNoMoreThanItsRows(t *testing.T) {
	eachDirect(t, func(t *testing.T, tab *table) {
		m := tab.member(t)
		leases := m.fill(t, 20000)
		if !tab.IsMySQL() {
			m.run(t, "BEGIN")
		}
		for range 8 { // PostgreSQL may come to another plan at the sixth time
			before := m.reads(t)
			require.Equal(t, len(leases), m.renew(t, leases...))
			moved, err := m.Moved(t.Context(), m.querier, m.s, leases)
			require.NoError(t, err)
			require.Empty(t, moved)
			// The table has 20 times as many. The server also reads the values, on MariaDB more than once.
			require.LessOrEqual(t, m.reads(t)-before, int64(10*len(leases)))
		}
	})
}

func TestAStatementThatWasPlannedForASmallTableDoesNotReadALargeOne(t *testing.T) {
	eachDirect(t, func(t *testing.T, tab *table) {
		m := tab.member(t)
		for range 8 {
			l := m.take(t, "a", "me", time.Minute)
			require.Equal(t, 1, m.renew(t, l))
			m.release(t, l)
		}
		(&member{querier: tab.bare(t), table: tab}).fill(t, 20000)
		if !tab.IsMySQL() {
			m.run(t, "BEGIN")
		}
		before := m.reads(t)
		l := m.take(t, "a", "me", time.Minute)
		require.Equal(t, 1, m.renew(t, l))
		m.release(t, l)
		require.Less(t, m.reads(t)-before, int64(50))
	})
}

// The default level is SERIALIZABLE, as a database's own setting: PgBouncer gives no session to prepare.
func TestRenewalsAtOnceDoNotFailEachOtherWhereTransactionsAreSerializable(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		admin := tab.bare(t)
		if !tab.IsMySQL() {
			row, err := admin.QuerySimple(t.Context(), "SELECT current_database()")
			require.NoError(t, err)
			admin.run(t, fmt.Sprintf("ALTER DATABASE %s SET default_transaction_isolation = 'serializable'", row[0]))
			admin.run(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		}
		var wg sync.WaitGroup
		for i := range 8 {
			q := tab.bare(t)
			if tab.IsMySQL() {
				tab.setIsolation(t, q, "SERIALIZABLE")
			}
			s, err := tab.Setup(t.Context(), q, time.Minute)
			require.NoError(t, err)
			m := (&member{q, tab, s}).patient(t)
			wg.Go(func() {
				ctx := t.Context()
				for range 30 {
					l := dialect.Lease{Key: fmt.Sprint("k", i), Owner: "me", TTL: time.Minute}
					g, err := m.Claim(ctx, m.querier, m.s, l, dialect.Companion{})
					l.Token = g.Token
					if err == nil {
						_, err = m.Renew(ctx, m.querier, m.s, []dialect.Lease{l})
					}
					if err == nil {
						_, _, err = m.Release(ctx, m.querier, m.s, l, nil)
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestUnlockedTellsWhichRowsNobodyKeeps(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		m, other := tab.member(t), tab.bare(t)
		leases := []dialect.Lease{m.take(t, "a", "me", time.Minute), m.take(t, "b", "me", time.Minute), m.take(t, "c", "me", time.Minute)}
		unlocked := func() []int {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			free, err := m.Unlocked(ctx, m.querier, m.s, leases)
			require.NoError(t, err, "it has waited")
			return free
		}
		require.ElementsMatch(t, []int{0, 1, 2}, unlocked())
		require.NoError(t, other.Exec(t.Context(), "BEGIN"))
		_, err := other.QueryAll(t.Context(), "SELECT owner FROM lockdb_lease WHERE lease_key='b' FOR UPDATE")
		require.NoError(t, err)
		require.ElementsMatch(t, []int{0, 2}, unlocked())
		require.NoError(t, other.Exec(t.Context(), "ROLLBACK"))
		require.ElementsMatch(t, []int{0, 1, 2}, unlocked(), "it keeps none itself")
		m.release(t, leases[0])
		require.ElementsMatch(t, []int{1, 2}, unlocked())
	})
}
