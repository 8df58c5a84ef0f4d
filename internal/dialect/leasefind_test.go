package dialect_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dialect"
)

// eachDatabase is eachTable without a table.
func eachDatabase(t *testing.T, fn func(t *testing.T, tab *table, q *querier)) {
	eachTable(t, func(t *testing.T, tab *table) {
		q := tab.bare(t)
		q.run(t, "DROP TABLE lockdb_lease")
		fn(t, tab, q)
	})
}

func TestATableThatIsMissingIsFoundToBeSoAndCreated(t *testing.T) {
	eachDatabase(t, func(t *testing.T, tab *table, q *querier) {
		for _, name := range []string{"lockdb_lease", "order", "Mixed_Case", "own.lockdb_lease", "_", "x" + strings.Repeat("y", 62)} {
			leases := tab.d.Leases(name)
			if strings.HasPrefix(name, "own.") {
				if tab.IsMySQL() {
					row, err := q.QueryRow(t.Context(), "SELECT DATABASE()")
					require.NoError(t, err)
					leases = tab.d.Leases(row[0].(string) + "_own.lockdb_lease")
					own := row[0].(string) + "_own"
					q.run(t, "CREATE DATABASE "+own)
					t.Cleanup(func() { tab.afterwards(t, "DROP DATABASE "+own) })
				} else {
					q.run(t, "CREATE SCHEMA own")
				}
			}
			_, err := leases.Find(t.Context(), q)
			require.ErrorIs(t, err, dialect.ErrNoLeaseTable, name)
			require.ErrorContains(t, err, "CREATE TABLE")
			_, err = leases.Claim(t.Context(), q, dialect.LeaseServer{}, dialect.Lease{Key: "k", Owner: "a"}, dialect.Companion{})
			require.Equal(t, dialect.LeaseFaultNoTable, leases.Fault(err), "%v", err)
			require.NoError(t, leases.Create(t.Context(), q, dialect.LeaseServer{}))
			require.NoError(t, leases.Create(t.Context(), q, dialect.LeaseServer{}), "a second time")
			found, err := leases.Find(t.Context(), q)
			require.NoError(t, err, name)

			// The name that was found means the same table elsewhere.
			elsewhere := &table{Server: tab.Server, Leases: found, d: tab.d, dsn: tab.dsn}
			if tab.IsMySQL() {
				base, _, _ := strings.Cut(tab.dsn, "/")
				elsewhere.dsn = base + "/"
			}
			m := elsewhere.member(t)
			if !tab.IsMySQL() && !m.s.Pooled {
				m.run(t, "SET search_path = pg_catalog")
			}
			m.story(t)
			if tab.IsMySQL() {
				m.run(t, "USE information_schema")
				m.story(t)
			}
		}
	})
}

func TestManyMayCreateTheTableAtOnce(t *testing.T) {
	eachDatabase(t, func(t *testing.T, tab *table, q *querier) {
		var wg sync.WaitGroup
		for range 16 {
			q := tab.bare(t)
			wg.Go(func() {
				err := tab.Create(t.Context(), q, dialect.LeaseServer{})
				for tab.Fault(err) == dialect.LeaseFaultRetry {
					err = tab.Create(t.Context(), q, dialect.LeaseServer{})
				}
				if err == nil {
					_, err = tab.d.Leases("lockdb_lease").Find(t.Context(), q)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

func TestATableOfAnotherShapeIsRefusedWithTheReason(t *testing.T) {
	eachDatabase(t, func(t *testing.T, tab *table, q *querier) {
		mysql := map[string]string{
			"CREATE TABLE lockdb_lease (id INT)":                                                                                     "it has no column lease_key",
			tab.ddl("VARBINARY(64) NOT NULL PRIMARY", "VARCHAR(64) NOT NULL PRIMARY"):                                                "its column lease_key is a varchar(64), not a varbinary(64)",
			tab.ddl("owner VARBINARY(64)", "owner VARBINARY(32)"):                                                                    "its column owner is a varbinary(32)",
			tab.ddl("token BIGINT NOT NULL", "token BIGINT UNSIGNED NOT NULL"):                                                       "its column token is a bigint",
			tab.ddl("expires_us BIGINT NOT NULL", "expires_us BIGINT"):                                                               "its column expires_us may be NULL",
			tab.ddl("expires_us", "expires_at"):                                                                                      "it has no column expires_us",
			tab.ddl(" PRIMARY KEY", ""):                                                                                              "lease_key is not its primary key",
			tab.ddl(" PRIMARY KEY", " UNIQUE"):                                                                                       "lease_key is not its primary key",
			tab.ddl("expires_us BIGINT NOT NULL", "expires_us BIGINT NOT NULL, UNIQUE (owner)"):                                      "it has a unique key of owner",
			tab.ddl("expires_us BIGINT NOT NULL", "expires_us BIGINT NOT NULL, note INT NOT NULL"):                                   "its column note has no default",
			tab.ddl("VARBINARY(64) NOT NULL PRIMARY KEY", "VARBINARY(64) NOT NULL") + " COMMENT 'x'":                                 "lease_key is not its primary key",
			strings.Replace(tab.ddl(" ENGINE=InnoDB", " ENGINE=MyISAM"), "IF NOT EXISTS ", "", 1):                                    "its engine is MyISAM, not InnoDB",
			"CREATE VIEW lockdb_lease AS SELECT 'k' lease_key, 'o' owner, 1 token, 2 expires_us":                                     "it is a view",
			tab.ddl("expires_us BIGINT NOT NULL", "expires_us BIGINT NOT NULL, UNIQUE (lease_key, token)"):                           "",
			tab.ddl("expires_us BIGINT NOT NULL", "expires_us BIGINT NOT NULL, note INT, since INT NOT NULL DEFAULT 1, KEY (owner)"): "",
		}
		postgres := map[string]string{
			"CREATE TABLE lockdb_lease (id int)":                                                     "it has no column lease_key",
			"CREATE TABLE lockdb_lease ()":                                                           "it has no column lease_key",
			tab.ddl("owner text", "owner varchar(32)"):                                               "its column owner is a character varying(32), not a text",
			tab.ddl("token bigint", "token int"):                                                     "its column token is a integer, not a bigint",
			tab.ddl("timestamptz", "timestamp"):                                                      "its column expires_at is a timestamp without time zone",
			tab.ddl("timestamptz NOT NULL", "timestamptz"):                                           "its column expires_at may be NULL",
			tab.ddl(" PRIMARY KEY", ""):                                                              "may be NULL",
			tab.ddl(`"C" PRIMARY KEY`, `"C" NOT NULL`):                                               "lease_key is not its primary key",
			tab.ddl(", UNIQUE (lease_key, token)", ""):                                               "it has no UNIQUE (lease_key, token)",
			tab.ddl("UNIQUE (lease_key, token)", "UNIQUE (lease_key, token) DEFERRABLE"):             "it has no UNIQUE (lease_key, token)",
			tab.ddl("UNIQUE (lease_key, token)", "UNIQUE (lease_key, token), UNIQUE (owner)"):        "it has a unique key of owner",
			tab.ddl("UNIQUE (lease_key", "note int NOT NULL, UNIQUE (lease_key"):                     "its column note has no default",
			tab.ddl("CREATE TABLE", "CREATE UNLOGGED TABLE"):                                         "unlogged or temporary",
			"CREATE VIEW lockdb_lease AS SELECT 'k' lease_key, 'o' owner, 1 token, now() expires_at": "it is not a table",
			tab.ddl("UNIQUE (lease_key", "note int, since int NOT NULL DEFAULT 1, id int GENERATED ALWAYS AS IDENTITY, UNIQUE (lease_key"): "",
			tab.ddl(`text COLLATE "C" NOT NULL`, "varchar(64) NOT NULL"):                                                                   "",
		}
		shapes := mysql
		if !tab.IsMySQL() {
			shapes = postgres
		}
		for ddl, want := range shapes {
			q.run(t, ddl)
			_, err := tab.d.Leases("lockdb_lease").Find(t.Context(), q)
			if want == "" {
				require.NoError(t, err, ddl)
				m := tab.member(t)
				m.release(t, m.take(t, "k", "a", time.Minute))
			} else {
				require.ErrorIs(t, err, dialect.ErrLeaseTableShape, ddl)
				require.ErrorContains(t, err, want)
				require.ErrorContains(t, err, "CREATE TABLE IF NOT EXISTS")
			}
			what := "TABLE"
			if strings.Contains(ddl, "VIEW") {
				what = "VIEW"
			}
			q.run(t, "DROP "+what+" lockdb_lease")
		}
	})
}

func TestPostgresTypesInQuotesAreTheSame(t *testing.T) {
	eachDatabase(t, func(t *testing.T, tab *table, q *querier) {
		if tab.IsMySQL() {
			return
		}
		q.run(t, "SET quote_all_identifiers = on", tab.d.Leases("lockdb_lease").DDL())
		_, err := tab.d.Leases("lockdb_lease").Find(t.Context(), q)
		require.NoError(t, err)
	})
}

// ddl is the table's, changed.
func (tab *table) ddl(from, to string) string {
	ddl := tab.d.Leases("lockdb_lease").DDL()
	return strings.Replace(ddl, from, to, 1)
}

func TestAnAccountWithoutPrivilegesIsToldSo(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		admin, m := tab.bare(t), tab.bare(t)
		if tab.IsMySQL() {
			row, err := admin.QueryRow(t.Context(), "SELECT DATABASE()")
			require.NoError(t, err)
			user := fmt.Sprintf("u%s", strings.TrimPrefix(row[0].(string), "lockdb_"))
			admin.run(t, "CREATE USER "+user+"@'%'", "GRANT SELECT ON "+row[0].(string)+".lockdb_lease TO "+user+"@'%'")
			t.Cleanup(func() { tab.afterwards(t, "DROP USER "+user+"@'%'") })
			m = session(t, tab.Driver(), strings.Replace(tab.dsn, "root@", user+"@", 1))
		} else {
			role := "r" + strings.ReplaceAll(fmt.Sprint(time.Now().UnixNano()), "-", "")
			admin.run(t, "CREATE ROLE "+role, "GRANT SELECT ON lockdb_lease TO "+role)
			t.Cleanup(func() { tab.afterwards(t, "DROP OWNED BY "+role, "DROP ROLE "+role) })
			m.run(t, "BEGIN", "SET LOCAL ROLE "+role) // in one transaction it is the same session through a pooler
		}
		_, err := tab.d.Leases("lockdb_lease").Find(t.Context(), m)
		require.NoError(t, err)
		if !tab.IsMySQL() {
			m.run(t, "SAVEPOINT s")
		}
		_, err = tab.Claim(t.Context(), m, dialect.LeaseServer{}, dialect.Lease{Key: "k", Owner: "a"}, dialect.Companion{})
		require.Equal(t, dialect.LeaseFaultForbidden, tab.Fault(err), "%v", err)
		if !tab.IsMySQL() {
			m.run(t, "ROLLBACK TO SAVEPOINT s")
		}
		err = tab.d.Leases("another").Create(t.Context(), m, dialect.LeaseServer{})
		require.Equal(t, dialect.LeaseFaultForbidden, tab.Fault(err), "%v", err)
	})
}

func TestWithoutADatabaseTheTableHasToBeNamedWithItsSchema(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		if !tab.IsMySQL() {
			return // every session is in a database
		}
		base, _, _ := strings.Cut(tab.dsn, "/")
		q := session(t, "mysql", base+"/")
		_, err := tab.d.Leases("lockdb_lease").Find(t.Context(), q)
		require.ErrorIs(t, err, dialect.ErrNoDatabase)
		require.NotErrorIs(t, err, dialect.ErrNoLeaseTable)
	})
}
