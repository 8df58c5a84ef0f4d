package migrate_test

import (
	"database/sql"
	"testing"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

func TestProcessesThatMigrateAtOnceMakeEachMigrationOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, shared *dbtest.Server) {
		names := []string{"goose", "golang-migrate for pgx"}
		if shared.IsMySQL() {
			names = []string{"golang-migrate for MySQL"}
		}
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				s := shared.CreateDatabase(t)
				outside := s.Open(t)
				_, err := outside.Exec("CREATE TABLE applied (version INT NOT NULL)")
				require.NoError(t, err)
				dsn := s.DSN()
				if s.IsMySQL() {
					dsn += "&multiStatements=true" // golang-migrate wants it
				}

				var all []*process
				for range 3 {
					all = append(all, start(t, name, dsn))
				}
				for _, p := range all {
					p.said(t, "ready")
				}
				for _, p := range all {
					p.tell(t)
				}
				for _, p := range all {
					p.said(t, "migrated")
				}
				require.Equal(t, []int{1, 2, 3}, applied(t, outside))
				requireNoLock(t, s, outside)
				for _, p := range all {
					p.tell(t)
				}
				for _, p := range all {
					p.ends(t)
				}
			})
		}
	})
}

func applied(t *testing.T, db *sql.DB) (versions []int) {
	t.Helper()
	rows, err := db.Query("SELECT version FROM applied ORDER BY version")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var version int
		require.NoError(t, rows.Scan(&version))
		versions = append(versions, version)
	}
	require.NoError(t, rows.Err())
	return versions
}

// requireNoLock asks the server, while the processes still have their connections.
func requireNoLock(t *testing.T, s *dbtest.Server, outside *sql.DB) {
	t.Helper()
	if !s.IsMySQL() {
		var held int
		require.NoError(t, outside.QueryRow(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&held))
		require.Zero(t, held)
		return
	}
	var schema string
	require.NoError(t, outside.QueryRow("SELECT DATABASE()").Scan(&schema))
	id, err := database.GenerateAdvisoryLockId(schema + ":schema_migrations")
	require.NoError(t, err)
	var free bool
	require.NoError(t, outside.QueryRow("SELECT IS_FREE_LOCK(?)", id).Scan(&free))
	require.True(t, free)
}
