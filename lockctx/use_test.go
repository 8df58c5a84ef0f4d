package lockctx_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// A statement that is kept was prepared in one database; the same text prepared
// after USE is of another.
func TestATextPreparedAfterUSEIsOfTheNewDatabase(t *testing.T) {
	for _, kind := range []dbtest.Kind{dbtest.MySQL, dbtest.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			s := dbtest.Shared(t, kind)
			var names [2]string
			for i := range names {
				bare := s.CreateDatabase(t).Open(t)
				_, err := bare.Exec("CREATE TABLE t (n INT)")
				require.NoError(t, err)
				require.NoError(t, bare.QueryRow("SELECT DATABASE()").Scan(&names[i]))
			}
			db := open(t, s)
			lk := acquire(t, db, dbtest.Key(t))
			ctx := lk.Context()
			const insert = "INSERT INTO t VALUES (?)"
			_, err := db.ExecContext(ctx, "USE "+names[0])
			require.NoError(t, err)
			kept, err := db.PrepareContext(ctx, insert)
			require.NoError(t, err)
			defer kept.Close()
			_, err = kept.ExecContext(ctx, 1)
			require.NoError(t, err)
			_, err = db.ExecContext(ctx, "USE "+names[1])
			require.NoError(t, err)
			_, err = db.ExecContext(ctx, insert, 2)
			require.NoError(t, err)
			require.NoError(t, lk.Close())
			for i, name := range names {
				var n int
				require.NoError(t, db.QueryRow("SELECT n FROM "+name+".t").Scan(&n))
				require.Equal(t, i+1, n)
			}
		})
	}
}
