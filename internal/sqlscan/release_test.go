package sqlscan_test

import (
	"database/sql/driver"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	. "github.com/lockdb/lockdb/internal/sqlscan"
)

func values(vs ...driver.Value) []driver.NamedValue {
	args := make([]driver.NamedValue, 0, len(vs))
	for i, v := range vs {
		args = append(args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return args
}

func anyCall(d Dialect, sql string, may func(Call) bool) bool {
	for c := range Calls(d, sql) {
		if may(c) {
			return true
		}
	}
	return false
}

func TestAReleaseOfAnotherNameIsToldFromOneOfOurs(t *testing.T) {
	for _, c := range []struct {
		sql  string
		args []driver.NamedValue
		want bool
	}{
		{"SELECT RELEASE_LOCK('job:k1')", nil, true},
		{"SELECT RELEASE_LOCK('JOB:K1')", nil, true},
		{"SELECT RELEASE_LOCK('job:\u212a1')", nil, true},
		{"SELECT RELEASE_LOCK('job:\xe01')", nil, true},
		{"SELECT RELEASE_LOCK('job:k1 ')", nil, false},
		{"SELECT RELEASE_LOCK('job:k')", nil, false},
		{"SELECT RELEASE_LOCK('job:é1')", nil, false},
		{"SELECT RELEASE_LOCK('')", nil, false},
		{"SELECT RELEASE_LOCK('a'), RELEASE_LOCK('job:k1')", nil, true},
		{"SELECT RELEASE_LOCK('a'), GET_LOCK('job:k1', 1)", nil, false},
		{"SELECT RELEASE_LOCK(?)", values("job:k1"), true},
		{"SELECT RELEASE_LOCK(?)", values([]byte("Job:k1")), true},
		{"SELECT RELEASE_LOCK(?)", values("job:k2"), false},
		{"SELECT RELEASE_LOCK(?)", values(nil), false},
		{"SELECT RELEASE_LOCK(?)", values(int64(1)), false},
		{"SELECT RELEASE_LOCK(?)", values(1.5), true},
		{"SELECT RELEASE_LOCK(?)", values(time.Time{}), true},
		{"SELECT RELEASE_LOCK(?)", nil, true},
		{"SELECT RELEASE_LOCK(?)", []driver.NamedValue{{Name: "n", Value: "a"}}, true},
		{"SELECT ?, RELEASE_LOCK(?)", values("job:k1", "a"), false},
		{"SELECT ?, RELEASE_LOCK(?)", values("a", "job:k1"), true},
		{"SELECT RELEASE_LOCK(CONCAT('a', 'b'))", nil, true},
		{"SELECT RELEASE_LOCK(@n)", nil, true},
		{"SELECT RELEASE_LOCK(42)", nil, false},
		{"SELECT RELEASE_ALL_LOCKS()", nil, true},
		{"SELECT IS_USED_LOCK('job:k1')", nil, false},
	} {
		got := anyCall(MySQL, c.sql, func(call Call) bool { return call.MayReleaseName("job:k1", c.args) })
		assert.Equal(t, c.want, got, "%s %v", c.sql, c.args)
	}
	assert.True(t, anyCall(MySQL, "SELECT RELEASE_LOCK(42)", func(c Call) bool { return c.MayReleaseName("42", nil) }))
	assert.True(t, anyCall(MySQL, "SELECT RELEASE_LOCK(?)", func(c Call) bool { return c.MayReleaseName("42", values(int64(42))) }))
}

func TestC44_AReleaseOfAnotherIDOrKeyFormIsToldFromOneOfOurs(t *testing.T) {
	for _, c := range []struct {
		sql      string
		args     []driver.NamedValue
		id, pair bool
	}{
		{"SELECT pg_advisory_unlock(42)", nil, true, false},
		{"SELECT pg_advisory_unlock_shared('42'::bigint)", nil, true, false},
		{"SELECT pg_advisory_unlock(-42)", nil, false, false},
		{"SELECT pg_advisory_unlock(0, 42)", nil, false, true},
		{"SELECT pg_advisory_unlock(1, 42)", nil, false, false},
		{"SELECT pg_advisory_unlock(0, x)", nil, false, true},
		{"SELECT pg_advisory_unlock(1, x)", nil, false, false},
		{"SELECT pg_advisory_unlock($1)", values(int64(42)), true, false},
		{"SELECT pg_advisory_unlock($1)", values(int64(41)), false, false},
		{"SELECT pg_advisory_unlock($2)", values(int64(41), int32(42)), true, false},
		{"SELECT pg_advisory_unlock($1)", values(uint64(1)<<63 + 42), false, false},
		{"SELECT pg_advisory_unlock($1)", values(uint64(42)), true, false},
		{"SELECT pg_advisory_unlock($1)", values("42"), true, false},
		{"SELECT pg_advisory_unlock($1)", values("41"), false, false},
		{"SELECT pg_advisory_unlock($1)", values("0x2A"), true, false},
		{"SELECT pg_advisory_unlock($1)", values(nil), false, false},
		{"SELECT pg_advisory_unlock($1)", values([]int16{1}), true, false},
		{"SELECT pg_advisory_unlock($1)", nil, true, false},
		{"SELECT pg_advisory_unlock($1, $2)", values(0, int8(42)), false, true},
		{"SELECT pg_advisory_unlock($1, $2)", values(int16(0), uint8(41)), false, false},
		{"SELECT pg_advisory_unlock($1, $2)", values(uint16(0), uint32(42)), false, true},
		{"SELECT pg_advisory_unlock($1, $2)", values(uint(0), 42), false, true},
		{"SELECT pg_advisory_unlock(@id)", nil, true, false},
		{"SELECT pg_advisory_unlock(hashtext('x'))", nil, true, false},
		{"SELECT pg_advisory_unlock(42, 42, 42)", nil, true, true},
		{"SELECT pg_advisory_unlock_all()", nil, true, true},
		{"SELECT pg_advisory_xact_lock(42), pg_advisory_lock(42)", nil, false, false},
	} {
		assert.Equal(t, c.id, anyCall(Postgres, c.sql, func(call Call) bool { return call.MayReleaseID(42, c.args) }), "%s %v", c.sql, c.args)
		assert.Equal(t, c.pair, anyCall(Postgres, c.sql, func(call Call) bool { return call.MayReleasePair(0, 42, c.args) }), "%s %v", c.sql, c.args)
	}
}
