package lockctx_test

import (
	"testing"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// preparedSQL is rawSQL with placeholders: take has args, release the first of them.
type preparedSQL struct {
	rawSQL
	args []any
}

func preparedFor(t testing.TB, s *dbtest.Server, key string) preparedSQL {
	if s.IsMySQL() {
		return preparedSQL{rawSQL{take: "SELECT GET_LOCK(?, ?)", release: "SELECT RELEASE_LOCK(?)"}, []any{lockName(t, key), 0}}
	}
	return preparedSQL{rawSQL{take: "SELECT pg_try_advisory_lock($1)", release: "SELECT pg_advisory_unlock($1)"}, []any{lockID(t, key)}}
}
