package conn_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// valued is a driver.Valuer.
type valued struct {
	value any
	err   error
}

func (v valued) Value() (sqldriver.Value, error) { return v.value, v.err }

type celsius float64

// valueCase is a query with arguments.
type valueCase struct {
	query string
	args  []any
}

func valueCases(s *dbtest.Server) []valueCase {
	when := time.Date(2001, 2, 3, 4, 5, 6, 789000000, time.FixedZone("", 3600))
	seven := 7
	one := func(query string, args ...any) []valueCase {
		cases := make([]valueCase, len(args))
		for i, a := range args {
			cases[i] = valueCase{query, []any{a}}
		}
		return cases
	}
	odd := []any{make(chan int), struct{ A int }{1}, sql.Out{Dest: &seven}, sql.Named("n", 1), valued{nil, errors.New("no value")}}
	if s.IsMySQL() {
		cases := one("SELECT ?", append(odd,
			1, int8(-1), uint32(3), int64(math.MinInt64), uint64(math.MaxUint64), uint64(1)<<63,
			1.5, float32(0.25), celsius(36.6), true, "text 'quoted' \\ \x00", "", []byte{0, 255}, []byte(nil), nil,
			when, time.Time{}, json.RawMessage(`{"a": 1}`), json.RawMessage(nil), &seven, (*int)(nil),
			valued{uint64(math.MaxUint64), nil}, valued{nil, nil}, &valued{"pointed", nil}, (*valued)(nil),
			sql.NullString{}, sql.NullInt64{Int64: 4, Valid: true}, []string{"a"}, map[string]int{})...)
		return append(
			cases,
			valueCase{"SELECT CAST(? AS UNSIGNED), CAST(? AS JSON), CAST(? AS DATETIME(6)), ? IS NULL", []any{uint64(math.MaxUint64), `{"a": [1]}`, when, nil}},
			valueCase{"SELECT ?, ?", []any{1}},
			valueCase{"SELECT 1", []any{1}},
			valueCase{"SELECT 18446744073709551615, -1, 1.50, 'x', x'00ff', NULL, DATE '2001-02-03', TIME '04:05:06'", nil},
			valueCase{"SELECT FROM", nil},
			valueCase{"SELECT ? FROM nowhere", []any{1}},
			valueCase{"SELECT 1 WHERE 1 = 0", nil},
		)
	}
	cases := one("SELECT $1::int8", 1, int8(-1), uint32(3), int64(math.MinInt64), uint64(math.MaxUint64), true, "42", nil, &seven, (*int)(nil),
		valued{int64(5), nil}, valued{nil, nil}, sql.NullInt64{}, sql.NullInt64{Int64: 4, Valid: true}, 1.5)
	cases = append(cases, one("SELECT $1::text", append(odd, "text 'quoted' \\", "", []byte("x"), nil, 1, when)...)...)
	cases = append(cases, one("SELECT $1::numeric", uint64(math.MaxUint64), uint64(1)<<63, 1.5, "12.50")...)
	cases = append(cases, one("SELECT $1::timestamptz", when, "2001-02-03", time.Time{}, nil)...)
	cases = append(cases, one("SELECT $1::jsonb", map[string]int{"a": 1}, json.RawMessage(`{"a": 1}`), `{"a": 1}`, []int{1}, struct{ A int }{1}, nil)...)
	cases = append(cases, one("SELECT $1::text[]", []string{"a", "b c", ""}, []string{}, []string(nil), "{a,b}", []*string{nil})...)
	cases = append(cases, one("SELECT $1::int[]", []int{1, 2}, []int64{3}, [][]int{{1}, {2}})...)
	cases = append(cases, one("SELECT $1::bytea", []byte{0, 255}, []byte(nil), `\x00`)...)
	cases = append(cases, one("SELECT $1::float8", math.Inf(1), celsius(36.6))...)
	cases = append(cases, one("SELECT $1::uuid", [16]byte{1}, "00000000-0000-4000-8000-00000000abcd")...)
	return append(
		cases,
		valueCase{"SELECT $1::int, $2::text", []any{1}},
		valueCase{"SELECT 1", []any{1}},
		valueCase{"SELECT 1, 1.50, 'x', true, NULL, DATE '2001-02-03', ARRAY[1], '{}'::jsonb, 'infinity'::timestamp", nil},
		valueCase{"SELECT FROM WHERE", nil},
		valueCase{"SELECT $1::int FROM nowhere", []any{1}},
		valueCase{"SELECT 1 WHERE false", nil},
	)
}

// querier is what a *sql.DB, a *sql.Conn and a *sql.Tx can do.
type querier interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	PrepareContext(context.Context, string) (*sql.Stmt, error)
}

// ask tells all that a program can see of a query: as text, since the server's
// own errors are told apart by their types and messages.
func ask(ctx context.Context, q querier, c valueCase) (seen []string) {
	rows, err := q.QueryContext(ctx, c.query, c.args...)
	seen = append(seen, observe(rows, err)...)
	_, err = q.ExecContext(ctx, c.query, c.args...)
	seen = append(seen, kind(err))
	stmt, err := q.PrepareContext(ctx, c.query)
	if err != nil {
		return append(seen, kind(err))
	}
	defer stmt.Close()
	rows, err = stmt.QueryContext(ctx, c.args...)
	return append(seen, observe(rows, err)...)
}

func observe(rows *sql.Rows, err error) (seen []string) {
	if err != nil {
		return []string{kind(err)}
	}
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		types, err := rows.ColumnTypes()
		seen = append(seen, kind(err))
		for _, ct := range types {
			length, hasLength := ct.Length()
			nullable, hasNullable := ct.Nullable()
			precision, scale, hasDecimal := ct.DecimalSize()
			seen = append(seen, fmt.Sprint(ct.Name(), ct.DatabaseTypeName(), ct.ScanType(), length, hasLength, nullable, hasNullable, precision, scale, hasDecimal))
		}
		for rows.Next() {
			row := make([]any, len(types))
			dest := make([]any, len(types))
			for i := range dest {
				dest[i] = &row[i]
			}
			err := rows.Scan(dest...)
			seen = append(seen, fmt.Sprintf("%#v %s", row, kind(err)))
		}
	}
	return append(seen, kind(rows.Err()), kind(rows.Close()))
}

// kind is an error's type and text.
func kind(err error) string { return fmt.Sprintf("%T %s", err, plainText(err)) }

// dsns are ways to open the server that differ in the protocol.
func dsns(s *dbtest.Server) map[string]string {
	with := func(params ...string) string {
		sep := "?"
		if strings.Contains(s.DSN(), "?") {
			sep = "&"
		}
		return s.DSN() + sep + strings.Join(params, "&")
	}
	if s.IsMySQL() {
		return map[string]string{
			"plain": s.DSN(), "interpolateParams": with("interpolateParams=true"), "multiStatements": with("multiStatements=true"),
			"columnsWithAlias and loc": with("columnsWithAlias=true", "loc=Local"),
		}
	}
	return map[string]string{
		"plain": s.DSN(), "exec": with("default_query_exec_mode=exec"), "simple_protocol": with("default_query_exec_mode=simple_protocol"),
		"cache_describe": with("default_query_exec_mode=cache_describe"), "describe_exec": with("default_query_exec_mode=describe_exec"),
	}
}

func TestC65_EveryValueTravelsAsOnTheBareDriver(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for name, dsn := range dsns(s) {
			t.Run(name, func(t *testing.T) {
				ctx := testCtx(t)
				bare, err := sql.Open(s.Driver(), dsn)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, bare.Close()) })
				db := openDSN(t, dsn)
				lk := acquire(t, db)
				for i, c := range valueCases(s) {
					want := ask(ctx, bare, c)
					at := fmt.Sprintf("case %d: %s with %#v", i, c.query, c.args)
					require.Equal(t, want, ask(ctx, db, c), at)
					require.Equal(t, want, ask(lk.Context(), db, c), "%s, under a lock", at)
					require.Equal(t, want, ask(lk.Context(), lk.DB(), c), "%s, by lock.DB", at)
					conn, err := lk.Conn(ctx)
					require.NoError(t, err)
					require.Equal(t, want, ask(ctx, conn, c), "%s, by lock.Conn", at)
					require.NoError(t, conn.Close())
				}
				require.NoError(t, lk.Err())
			})
		}
	})
}

func TestC65_EveryValueTravelsInATransactionAsOnTheBareDriver(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		bare, db := s.Open(t), open(t, s)
		lk := acquire(t, db)
		inTx := func(ctx context.Context, db *sql.DB, c valueCase) []string {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			seen := ask(ctx, tx, c)
			return append(seen, kind(tx.Commit()))
		}
		for i, c := range valueCases(s) {
			want := inTx(testCtx(t), bare, c)
			at := fmt.Sprintf("case %d: %s with %#v", i, c.query, c.args)
			require.Equal(t, want, inTx(testCtx(t), db, c), at)
			require.Equal(t, want, inTx(lk.Context(), db, c), "%s, under a lock", at)
		}
		require.NoError(t, lk.Err())
	})
}
