//go:build go1.27

package conn_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

type (
	namedString string
	namedBytes  []byte
	namedTime   time.Time
	point       struct{ X, Y int }
)

// mine is a sql.Scanner.
type mine struct{ got string }

func (m *mine) Scan(src any) error {
	if src == nil {
		return fmt.Errorf("not NULL, please")
	}
	m.got = fmt.Sprintf("%T %v", src, src)
	return nil
}

// onlyInt64 is what pgx scans integers into, and database/sql does not know.
type onlyInt64 struct{ n int64 }

func (o *onlyInt64) ScanInt64(v pgtype.Int8) error {
	o.n = v.Int64
	return nil
}

// scanCase is a column and a variable for it.
type scanCase struct {
	expr string
	dest any // a pointer to such a value
}

var scanCases = []scanCase{
	{"ARRAY['a', 'b c', NULL]", []*string(nil)},
	{"ARRAY['a', 'b c']", []string(nil)},
	{"ARRAY['a', NULL]", []string(nil)}, // an error
	{"ARRAY[1, 2]", []int32(nil)},
	{"ARRAY[1, 2]", []int64(nil)},
	{"ARRAY[[1, 2], [3, 4]]", [][]int(nil)},
	{"ARRAY[1, 2]", pgtype.FlatArray[int]{}},
	{"ARRAY[1, 2]", pgtype.Array[int]{}},
	{"ARRAY[1, 2]", [2]int{}},
	{"ARRAY[1, 2]", ""},
	{"ARRAY[1, 2]", any(nil)},
	{"ARRAY[1, 2]", 0}, // an error
	{"NULL::int[]", []int(nil)},
	{"ARRAY['2001-02-03 04:05:06+00'::timestamptz]", []time.Time(nil)},
	{"ARRAY['red'::mood, 'blue'::mood]", []string(nil)},
	{"'red'::mood", ""},
	{"'red'::mood", namedString("")},
	{"'red'::mood", mine{}},
	{"ROW(1, 'x')", []any(nil)},
	{"int4range(1, 5)", pgtype.Range[pgtype.Int4]{}},
	{"int4range(1, 5)", ""},
	{"point(1, 2)", pgtype.Point{}},
	{"'1 day 2 hours'::interval", pgtype.Interval{}},
	{"'2 hours'::interval", time.Duration(0)},
	{"'10.0.0.1'::inet", netip.Addr{}},
	{"'10.0.0.0/8'::cidr", netip.Prefix{}},
	{"'10.0.0.1'::inet", ""},
	{"'00000000-0000-4000-8000-00000000abcd'::uuid", [16]byte{}},
	{"'00000000-0000-4000-8000-00000000abcd'::uuid", ""},
	{"'00000000-0000-4000-8000-00000000abcd'::uuid", pgtype.UUID{}},
	{`'{"X": 1, "Y": 2}'::jsonb`, point{}},
	{`'{"X": 1, "Y": 2}'::json`, map[string]any(nil)},
	{`'{"X": 1, "Y": 2}'::jsonb`, json.RawMessage(nil)},
	{`'{"X": 1, "Y": 2}'::jsonb`, ""},
	{`'[1, 2]'::jsonb`, []int(nil)},
	{`'[1, 2]'::jsonb`, mine{}},
	{"12.50::numeric", ""},
	{"12.50::numeric", 0.0},
	{"12.50::numeric", pgtype.Numeric{}},
	{"12.50::numeric", 0}, // an error
	{"12::numeric", big.Int{}},
	{"42::int8", 0},
	{"42::int8", int8(0)},
	{"300::int8", int8(0)}, // an error
	{"42::int8", uint64(0)},
	{"42::int8", onlyInt64{}},
	{"42::int8", pgtype.Int8{}},
	{"42::int8", (*int)(nil)},
	{"42::int8", (**int)(nil)},
	{"NULL::int8", (*int)(nil)},
	{"NULL::int8", 0}, // an error
	{"NULL::int8", sql.NullInt64{}},
	{"42::int8", any(nil)},
	{"42::int8", mine{}},
	{"NULL::int8", mine{}}, // an error
	{"42::int2", onlyInt64{}},
	{"42::oid", uint32(0)},
	{"42::oid", struct{ Int chan int }{}}, // an error
	{"true", false},
	{"true", any(nil)},
	{"true", []bool(nil)}, // an error
	{"1.5::float4", float32(0)},
	{"1.5::float8", any(nil)},
	{"'x'::text", ""},
	{"'x'::text", namedString("")},
	{"'x'::text", []byte(nil)},
	{"'x'::text", namedBytes(nil)},
	{"'x'::text", pgtype.Text{}},
	{"'x'::text", pgtype.PreallocBytes(nil)},
	{"'yes'::text", false},   // an error
	{"'x'::text", func() {}}, // an error
	{`'\x00ff'::bytea`, []byte(nil)},
	{`'\x00ff'::bytea`, ""},
	{`'\x00ff'::bytea`, namedBytes(nil)},
	{`'\x00ff'::bytea`, any(nil)},
	{`'\x00ff'::bytea`, pgtype.PreallocBytes(nil)},
	{`'\x00ff'::bytea`, [2]byte{}},
	{`'\x00ff'::bytea`, mine{}},
	{"'2001-02-03'::date", time.Time{}},
	{"'2001-02-03'::date", ""},
	{"'2001-02-03'::date", pgtype.Date{}},
	{"'infinity'::date", ""},
	{"'infinity'::timestamptz", time.Time{}}, // an error
	{"'2001-02-03 04:05:06+00'::timestamptz", time.Time{}},
	{"'2001-02-03 04:05:06+00'::timestamptz", namedTime{}},
	{"'2001-02-03 04:05:06+00'::timestamptz", any(nil)},
	{"'2001-02-03 04:05:06'::timestamp", pgtype.Timestamp{}},
	{"'2001-02-03 04:05:06'::timestamp", mine{}},
	{"'<a/>'::xml", []byte(nil)},
	{"'<a/>'::xml", ""},
}

// scanned is what came of one scan.
type scanned struct {
	Value any
	Error string
}

// scanRow scans each column of the current row into its variable.
func scanRow(rows *sql.Rows) []scanned {
	out := make([]scanned, len(scanCases))
	for i, c := range scanCases {
		dests := make([]any, len(scanCases))
		for j := range dests {
			dests[j] = new(any)
		}
		dest := reflect.New(typeOf(c.dest))
		dests[i] = dest.Interface()
		err := rows.Scan(dests...)
		out[i] = scanned{dest.Elem().Interface(), plainText(err)}
		if dest.Elem().Kind() == reflect.Func {
			out[i].Value = nil // functions cannot be compared
		}
	}
	return out
}

func typeOf(v any) reflect.Type {
	if v == nil {
		return reflect.TypeFor[any]()
	}
	return reflect.TypeOf(v)
}

func scanQuery() string {
	exprs := make([]string, len(scanCases))
	for i, c := range scanCases {
		exprs[i] = c.expr
	}
	return "SELECT " + strings.Join(exprs, ", ") + " FROM generate_series(1, 3)"
}

func TestUnderALockColumnsScanAsOnTheBareDriverAlsoWhenTheyWereReadAhead(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres).CreateDatabase(t)
	bare := s.Open(t)
	_, err := bare.Exec("CREATE TYPE mood AS ENUM ('red', 'blue')")
	require.NoError(t, err)
	same := func(t *testing.T, want, got []scanned) {
		t.Helper()
		for i, c := range scanCases {
			require.Equal(t, want[i], got[i], "%s into %T, column %d", c.expr, c.dest, i)
		}
	}

	rows, err := bare.Query(scanQuery())
	require.NoError(t, err)
	defer rows.Close()
	require.True(t, rows.Next(), rows.Err())
	want := scanRow(rows)

	tp := newTap(t, s)
	db := openDSN(t, tp.dsn)
	lk := acquire(t, db)
	rows, err = db.QueryContext(lk.Context(), scanQuery())
	require.NoError(t, err)
	defer rows.Close()
	require.True(t, rows.Next(), rows.Err())
	t.Run("as it comes", func(t *testing.T) { same(t, want, scanRow(rows)) })
	require.True(t, rows.Next(), rows.Err())
	tp.pinged(t, db)
	t.Run("the current row when the keeper read ahead", func(t *testing.T) { same(t, want, scanRow(rows)) })
	require.True(t, rows.Next(), rows.Err())
	t.Run("a row that was read ahead", func(t *testing.T) { same(t, want, scanRow(rows)) })
	require.False(t, rows.Next())
	require.NoError(t, rows.Err())
}

// closer is a sql.Scanner that closes a lock.
type closer struct{ close func() error }

func (c *closer) Scan(any) error { return c.close() }

func TestAScannerMayUseTheLock(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	db := open(t, s, driver.WithBusyTimeout(30*time.Second))
	lk := acquire(t, db)
	row := db.QueryRowContext(lk.Context(), "SELECT 1")
	done := make(chan error, 1)
	go func() { done <- row.Scan(&closer{lk.Close}) }()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("Close of the lock waits for the Scan that calls it")
	}
}

func TestScanAfterTheEndOfTheLockIsAnError(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	db := open(t, s)
	lk := acquire(t, db)
	ctx := lk.Context()
	// database/sql must not close the Rows itself: its context does not end with the lock's.
	c, err := lk.Conn(context.WithoutCancel(ctx))
	require.NoError(t, err)
	defer c.Close()
	rows, err := c.QueryContext(context.Background(), "SELECT ARRAY[1]")
	require.NoError(t, err)
	defer rows.Close()
	require.True(t, rows.Next())
	require.NoError(t, lk.Close())
	var got []int
	require.ErrorContains(t, rows.Scan(&got), "released")
}
