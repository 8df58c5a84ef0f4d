package lockctx_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

func TestALockThatMySQLHasNoRoomToShowDoesNotStayInThePool(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		if s.Kind() != dbtest.MySQL {
			return // the others list them without such a limit, or not at all
		}
		p := dbtest.Private(t, dbtest.MySQL, "performance-schema-max-metadata-locks=50")
		db, out, other := open(t, p), newOutsider(t, p), p.Open(t)
		other.SetMaxOpenConns(1)
		for i := range 60 {
			require.NoError(t, second(other.Exec(fmt.Sprintf("DO GET_LOCK('other %d', 0)", i))))
		}
		key := dbtest.Key(t)
		name := lockName(t, key)
		require.NoError(t, second(db.ExecContext(testCtx(t), "DO GET_LOCK('"+name+"', 0)")))
		require.False(t, out.try(key))
		require.Len(t, heldRaw(t, db), 1)
		require.NoError(t, second(db.ExecContext(testCtx(t), "DO RELEASE_LOCK('"+name+"')")))
		require.True(t, out.try(key))

		require.NoError(t, second(db.ExecContext(testCtx(t), "DO GET_LOCK(CONCAT('"+name+"', ''), 0)")))
		out.free(key, promptly) // which it would not be if the pool had it
	})
}
