package lockctx_test

import (
	"hash/fnv"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

func TestANumberIsALocksNameToo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		if s.Kind() != dbtest.MySQL {
			return // PostgreSQL has nothing else, and MariaDB refuses it
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(dbtest.Key(t)))
		number := strconv.Itoa(int(h.Sum32()))
		db, other := open(t, s), s.Open(t)
		for _, sign := range []string{"", "-"} {
			name := sign + number
			require.True(t, yes(t, db, "SELECT GET_LOCK("+name+", 0)"))
			require.False(t, yes(t, other, "SELECT GET_LOCK('"+name+"', 0)"))
			require.True(t, yes(t, db, "SELECT RELEASE_LOCK('"+name+"')"))
			require.True(t, yes(t, db, "SELECT GET_LOCK('"+name+"', 0)"))
			require.True(t, yes(t, db, "SELECT RELEASE_LOCK("+name+")"))
			require.True(t, yes(t, other, "SELECT IS_FREE_LOCK('"+name+"')"))
		}
	})
}
