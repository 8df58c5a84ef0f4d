package lockctx_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

// slowTTL leaves a busy machine some time for a keep-alive.
const slowTTL = 3 * time.Second

// dripping is a query with so many rows, each of which the server sends after that long.
func dripping(s *dbtest.Server, n int, each string) (query string, args []any) {
	if s.IsMySQL() { // a row that fills its buffer is sent at once
		return "WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL SELECT n+1 FROM r WHERE n<?) SELECT n, SLEEP(IF(n=0, 0, " + each + ")), REPEAT('x', 20000) FROM r", []any{n - 1}
	}
	return "SELECT n, pg_sleep(CASE n WHEN 0 THEN 0 ELSE " + each + " END), repeat('x', 20000) FROM generate_series(0, $1) AS n", []any{n - 1}
}

func slowly(t *testing.T, f func(t *testing.T, s *dbtest.Server, db *sql.DB)) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		f(t, s, open(t, s, driver.WithTTL(slowTTL)))
	})
}

// The keep-alive finds the session in use whenever it comes, or nearly so.
func TestI6_AResultSetThatTheServerSendsSlowlyDoesNotCostTheLock(t *testing.T) {
	slowly(t, func(t *testing.T, s *dbtest.Server, db *sql.DB) {
		lk := acquire(t, db, dbtest.Key(t))
		query, args := dripping(s, 150, "0.05")
		rows, err := db.QueryContext(lk.Context(), query, args...)
		require.NoError(t, err)
		defer func() { _ = rows.Close() }()
		n := 0
		for ; rows.Next(); n++ {
			time.Sleep(10 * time.Millisecond)
		}
		require.NoError(t, rows.Err())
		require.Equal(t, 150, n)
		require.NoError(t, lk.Close())
	})
}

func TestI6_ARowThatTakesLongerThanTheTTLDoesNotCostTheLock(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *sql.Rows){
		"read":   func(t *testing.T, rows *sql.Rows) { require.True(t, rows.Next()) },
		"closed": func(t *testing.T, rows *sql.Rows) { require.NoError(t, rows.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			slowly(t, func(t *testing.T, s *dbtest.Server, db *sql.DB) {
				lk := acquire(t, db, dbtest.Key(t))
				query, args := dripping(s, 2, "4.5")
				rows, err := db.QueryContext(lk.Context(), query, args...)
				require.NoError(t, err)
				defer func() { _ = rows.Close() }()
				require.True(t, rows.Next())
				end(t, rows)
				select { // for the keep-alive to come
				case <-lk.Context().Done():
				case <-time.After(slowTTL):
				}
				require.NoError(t, lk.Err())
				require.NoError(t, rows.Close())
				require.NoError(t, lk.Close())
			})
		})
	}
}

// As a COPY of many rows does.
func TestI6_ARawAccessThatTakesLongerThanTheTTLDoesNotCostTheLock(t *testing.T) {
	slowly(t, func(t *testing.T, s *dbtest.Server, db *sql.DB) {
		lk := acquire(t, db, dbtest.Key(t))
		c, err := lk.Conn(testCtx(t))
		require.NoError(t, err)
		require.NoError(t, c.Raw(func(dc any) error {
			return rawExec(testCtx(t), dc, "DO SLEEP(4.5)", "SELECT pg_sleep(4.5)")
		}))
		require.NoError(t, c.Close())
		select { // for the keep-alive to come
		case <-lk.Context().Done():
		case <-time.After(slowTTL):
		}
		require.NoError(t, lk.Err())
		require.NoError(t, lk.Close())
	})
}
