package sqlscan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	. "github.com/lockdb/lockdb/internal/sqlscan"
)

var benchTexts = []struct {
	what string
	d    Dialect
	sql  string
}{
	{"select100", MySQL, "SELECT id, name, email, created_at FROM users WHERE tenant_id = ? AND status = ? ORDER BY id LIMIT 10"},
	{"select100", Postgres, "SELECT id, name, email, created_at FROM users WHERE tenant_id = $1 AND status = $2 ORDER BY id LIMIT 9"},
	{"insert100", MySQL, "INSERT INTO `orders` (`customer_id`,`total`,`state`,`created_at`) VALUES (?,?,?,?) -- a comment of mine"},
	{"insert100", Postgres, `INSERT INTO "orders" ("customer_id","total","state","created_at") VALUES ($1,$2,$3,$4) RETURNING "id"`},
	{"named query", Postgres, "-- name: GetUser :one\nSELECT id, name, email, created_at FROM users WHERE tenant_id = $1 AND id = $2"},
	{"bulk 4KiB", MySQL, "INSERT INTO t (a, b, c) VALUES " + strings.Repeat("(?, ?, ?), ", 370) + "(?, ?, ?)"},
	{"set", MySQL, "SET autocommit = 0, time_zone = '+00:00'"},
	{"block list", MySQL, "INSERT INTO block (`customer_id`,`total`,`state`,`created_at`) VALUES (?,?,?,?) -- a comment of mine"},
	{"lock", MySQL, "SELECT GET_LOCK('order:42', 5)"},
	{"lock", Postgres, "SELECT pg_try_advisory_lock($1)"},
}

func BenchmarkScan(b *testing.B) {
	for _, c := range benchTexts {
		b.Run(fmt.Sprintf("%s/%d", c.what, c.d), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = Scan(c.d, c.sql)
			}
		})
	}
}

func TestTheCostOfScanGrowsNoFasterThanTheText(t *testing.T) {
	for _, piece := range []string{
		"(", ")\n(", ")\r(", "\n\n(", `"x" (`, `"a(`, "'", `\'`, "`", "$a", "$a$", "$1$", "/*", "*/", "/*!", "/*!5(", "--", "-- x\n(", "#(", "1(",
		"U&", `U&"x"(`, "get_lock(", "pg_advisory_lock(", "a.", "@", ";", ";a", "?",
	} {
		for _, d := range []Dialect{MySQL, Postgres} {
			for _, start := range []string{"SELECT ", ""} {
				sql := start + strings.Repeat(piece, (1<<19)/len(piece)) + "lock(1)"
				began := time.Now()
				Scan(d, sql)
				assert.Less(t, time.Since(began), 5*time.Second, "%q", piece) // linear: some milliseconds
			}
		}
	}
}
