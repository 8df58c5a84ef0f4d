package bench

import (
	"os"
	"testing"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// kinds are the real servers.
var kinds = []dbtest.Kind{dbtest.MySQL, dbtest.MariaDB, dbtest.Postgres}

// durable starts a server whose commits are on disk before they are answered, as
// servers are unless told otherwise. dbtest's are told otherwise, and keep their data
// in memory: they have nothing to lose.
func durable(b *testing.B, kind dbtest.Kind) *dbtest.Server {
	b.Helper()
	b.Setenv("TMPDIR", disk())
	switch kind {
	case dbtest.Postgres:
		return dbtest.Private(b, kind, "fsync=on", "synchronous_commit=on", "full_page_writes=on")
	case dbtest.MariaDB:
		return dbtest.Private(b, kind, "innodb-flush-log-at-trx-commit=1", "innodb-flush-method=O_DIRECT")
	}
	return dbtest.Private(b, kind, "innodb-flush-log-at-trx-commit=1")
}

// disk is a folder that is not in memory: /var/tmp is to outlive a restart.
func disk() string {
	const lasting = "/var/tmp"
	if info, err := os.Stat(lasting); err == nil && info.IsDir() {
		return lasting
	}
	return os.TempDir()
}

// onCommits runs fn on each real server, as dbtest has it and durable.
func onCommits(b *testing.B, fn func(b *testing.B, s server)) {
	for _, kind := range kinds {
		b.Run("server="+string(kind), func(b *testing.B) {
			b.Run("commits=durable", func(b *testing.B) { fn(b, newServer(b, durable(b, kind))) })
			b.Run("commits=fast", func(b *testing.B) { fn(b, newServer(b, dbtest.Shared(b, kind))) })
		})
	}
}
