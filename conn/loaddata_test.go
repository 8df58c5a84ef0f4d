package conn_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

func TestLoadDataLocalRunsAsOnTheBareDriver(t *testing.T) {
	for _, k := range []dbtest.Kind{dbtest.MySQL, dbtest.MariaDB} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			s := dbtest.Private(t, k, "local_infile=1")
			_, err := s.Open(t).Exec("CREATE TABLE loaded (a int, b varchar(100))")
			require.NoError(t, err)
			var lines strings.Builder
			for i := range 20_000 { // several of the driver's packets
				fmt.Fprintf(&lines, "%d\t%s\n", i, strings.Repeat("x", i%100))
			}
			broken := errors.New("the disk is on fire")
			for name, handler := range map[string]func() io.Reader{
				"rows":   func() io.Reader { return strings.NewReader(lines.String()) },
				"none":   func() io.Reader { return strings.NewReader("") },
				"broken": func() io.Reader { return iotest.ErrReader(broken) },
			} {
				mysql.RegisterReaderHandler(t.Name()+"/"+name, handler)
				t.Cleanup(func() { mysql.DeregisterReaderHandler(t.Name() + "/" + name) })
			}
			load := func(ctx context.Context, q querier, what string) string {
				_, err := q.ExecContext(ctx, "DELETE FROM loaded")
				require.NoError(t, err)
				res, err := q.ExecContext(ctx, "LOAD DATA LOCAL INFILE 'Reader::"+t.Name()+"/"+what+"' INTO TABLE loaded")
				if err != nil {
					return kind(err)
				}
				n, err := res.RowsAffected()
				return fmt.Sprint(n, kind(err))
			}
			bare, db := s.Open(t), open(t, s)
			lk := acquire(t, db)
			for _, what := range []string{"rows", "none", "broken", "missing"} {
				want := load(testCtx(t), bare, what)
				require.Equal(t, want, load(testCtx(t), db, what), what)
				require.Equal(t, want, load(lk.Context(), db, what), "%s, under a lock", what)
				tx, err := db.BeginTx(lk.Context(), &sql.TxOptions{})
				require.NoError(t, err)
				require.Equal(t, want, load(lk.Context(), tx, what), "%s, in a transaction under a lock", what)
				require.NoError(t, tx.Commit())
				require.NoError(t, lk.Err())
			}
			require.Contains(t, load(lk.Context(), db, "rows"), "20000")
		})
	}
}
