package dialect_test

import (
	"database/sql/driver"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/dialect"
)

func TestFaultsAreToldFromTheServersErrors(t *testing.T) {
	for number, want := range map[uint16]dialect.LeaseFault{
		1213: dialect.LeaseFaultRetry, 1205: dialect.LeaseFaultRetry, 1020: dialect.LeaseFaultRetry,
		1146: dialect.LeaseFaultNoTable, 1054: dialect.LeaseFaultShape, 1136: dialect.LeaseFaultShape,
		1142: dialect.LeaseFaultForbidden, 1143: dialect.LeaseFaultForbidden, 1044: dialect.LeaseFaultForbidden,
		1290: dialect.LeaseFaultReadOnly, 1792: dialect.LeaseFaultReadOnly, 1836: dialect.LeaseFaultReadOnly,
		1305: dialect.LeaseFaultNoLocks, 1064: dialect.LeaseFaultRefused, 1053: dialect.LeaseFaultOther,
	} {
		err := fmt.Errorf("claim: %w", &mysql.MySQLError{Number: number})
		require.Equal(t, want, dialect.MySQL.Leases("t").Fault(err), number)
	}
	for code, want := range map[string]dialect.LeaseFault{
		"40001": dialect.LeaseFaultRetry, "40P01": dialect.LeaseFaultRetry, "55P03": dialect.LeaseFaultRetry, "23505": dialect.LeaseFaultRetry,
		"42P01": dialect.LeaseFaultNoTable, "3F000": dialect.LeaseFaultNoTable,
		"42703": dialect.LeaseFaultShape, "42P10": dialect.LeaseFaultShape, "42804": dialect.LeaseFaultShape,
		"42501": dialect.LeaseFaultForbidden, "25006": dialect.LeaseFaultReadOnly, "42883": dialect.LeaseFaultNoLocks,
		"42601": dialect.LeaseFaultRefused, "57P01": dialect.LeaseFaultOther,
	} {
		err := fmt.Errorf("claim: %w", &pgconn.PgError{Code: code})
		require.Equal(t, want, dialect.Postgres.Leases("t").Fault(err), code)
	}
	for _, d := range []dialect.Dialect{dialect.MySQL, dialect.Postgres} {
		require.Equal(t, dialect.LeaseFaultOther, d.Leases("t").Fault(driver.ErrBadConn))
		require.Equal(t, dialect.LeaseFaultOther, d.Leases("t").Fault(nil))
	}
}

func TestAServerThatIsReadOnlyIsToldSo(t *testing.T) {
	for _, c := range []struct {
		kind     dbtest.Kind
		settings []string
	}{
		{dbtest.MySQL, nil},
		{dbtest.MariaDB, nil},
		{dbtest.Postgres, nil},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			s := dbtest.Private(t, c.kind, c.settings...)
			tab := newTable(t, s)
			m, admin := tab.member(t), tab.bare(t)
			m.release(t, m.take(t, "k", "a", time.Minute))
			dsn := tab.dsn
			switch c.kind {
			case dbtest.MySQL:
				admin.run(t, "SET GLOBAL super_read_only=1")
			case dbtest.MariaDB: // where a superuser may write still
				admin.run(t, "CREATE USER u@'%'", "GRANT ALL ON *.* TO u@'%'", "REVOKE READ_ONLY ADMIN ON *.* FROM u@'%'", "SET GLOBAL read_only=1")
				tab.dsn = "u@" + dsn[len("root@"):]
				m = tab.member(t)
			default: // a session that was prepared before follows
				admin.run(t, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
			}
			var err error
			require.Eventually(t, func() bool {
				_, err = m.Claim(t.Context(), m.querier, m.s, dialect.Lease{Key: "k", Owner: "a", TTL: time.Minute}, dialect.Companion{})
				return err != nil
			}, 10*time.Second, 10*time.Millisecond)
			require.Equal(t, dialect.LeaseFaultReadOnly, m.Fault(err), "%v", err)
			again := tab.member(t)
			_, err = again.Claim(t.Context(), again.querier, again.s, dialect.Lease{Key: "k", Owner: "a", TTL: time.Minute}, dialect.Companion{})
			require.Equal(t, dialect.LeaseFaultReadOnly, m.Fault(err), "%v", err)
		})
	}
}

func TestLeasesWorkWhereTheBinaryLogHasStatements(t *testing.T) {
	for _, c := range []struct {
		kind     dbtest.Kind
		settings []string
	}{
		{dbtest.MySQL, []string{"log_bin=bin", "server_id=1", "binlog_format=STATEMENT"}},
		{dbtest.MariaDB, []string{"log_bin=bin", "server_id=1", "binlog_format=STATEMENT", "innodb_snapshot_isolation=ON"}},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			tab := newTable(t, dbtest.Private(t, c.kind, c.settings...).CreateDatabase(t))
			a, b := tab.member(t), tab.member(t)
			require.True(t, a.s.StatementLog)
			a.story(t)
			taken := tab.companion(t, dialect.CompanionTaken)
			l := dialect.Lease{Key: "k", Owner: "a", TTL: time.Minute}
			g, err := a.claim(t.Context(), l, taken)
			require.NoError(t, err)
			require.True(t, g.Granted && g.Taken)
			l.Token = g.Token
			g, err = b.claim(t.Context(), l, taken)
			require.NoError(t, err)
			require.Equal(t, dialect.Grant{}, g)
			g, err = b.claim(t.Context(), l, dialect.Companion{Mode: dialect.CompanionFree, Name: taken.Name})
			require.NoError(t, err)
			require.Equal(t, dialect.Grant{}, g)
			_, freed, err := a.Release(t.Context(), a.querier, a.s, l, &taken.Name)
			require.NoError(t, err)
			require.True(t, freed)
			b.requireFree(t, taken.Name)
		})
	}
}
