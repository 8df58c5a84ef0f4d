package lockctx_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// prepared is how many statements the server has prepared now, and has executed.
func prepared(t *testing.T, s *dbtest.Server) (now, executed int) {
	t.Helper()
	db := s.Open(t)
	defer db.Close()
	for name, n := range map[string]*int{"Prepared_stmt_count": &now, "Com_stmt_execute": &executed} {
		var text string
		require.NoError(t, db.QueryRowContext(testCtx(t), "SHOW GLOBAL STATUS WHERE Variable_name = '"+name+"'").Scan(&name, &text))
		var err error
		*n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	return now, executed
}

func TestLeasesKeepAFewStatementsPreparedAndDoWithout(t *testing.T) {
	for _, k := range []dbtest.Kind{dbtest.MySQL, dbtest.MariaDB} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			s := dbtest.Private(t, k)
			view := s.CreateDatabase(t)
			key, rows := dbtest.Key(t), newLeaseTable(t, view)
			var last int64
			cycle := func() {
				t.Helper()
				db := open(t, view)
				for i := range 30 {
					if i%10 == 9 {
						_, err := rows.bare.ExecContext(testCtx(t), "DELETE FROM lockdb_lease")
						require.NoError(t, err)
					}
					lk := acquire(t, db, key, lockctx.Lease(forLong))
					require.Greater(t, lk.Token(), last)
					last = lk.Token()
					require.NoError(t, lk.Close())
				}
			}
			cycle()
			kept, before := prepared(t, s)
			require.Positive(t, kept)
			require.LessOrEqual(t, kept, 8)
			require.Greater(t, before, 30, "executions")

			admin := s.Open(t)
			_, err := admin.ExecContext(testCtx(t), "SET GLOBAL max_prepared_stmt_count = 0")
			require.NoError(t, err)
			cycle()
			_, after := prepared(t, s)
			require.Equal(t, before, after, "executions, where none can be prepared")
		})
	}
}
