package conn_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// eachMySQL runs fn on the servers of MySQL's family.
func eachMySQL(t *testing.T, fn func(t *testing.T, s *dbtest.Server)) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		if s.IsMySQL() {
			fn(t, s)
		}
	})
}

var multiQueries = []string{
	"SELECT 1 AS a UNION ALL SELECT 2; SELECT 'x' AS b, 'y' AS c; SELECT 3 AS d",
	"SELECT 1; DO 1; SELECT 2 WHERE 1 = 0; SELECT 3",
	"DO 1; DO 2",
	"SELECT 1; SELECT nothing; SELECT 2",
	"CALL two_sets(7)",
	"CALL fails_late()",
	"SELECT REPEAT('x', 100000) UNION ALL SELECT 'y'; SELECT 2",
}

// walk reads all result sets. between is called at each step.
func walk(rows *sql.Rows, err error, between func(step int)) (seen []string) {
	if err != nil {
		return []string{kind(err)}
	}
	defer rows.Close()
	step := 0
	at := func() {
		between(step)
		step++
	}
	for {
		columns, err := rows.Columns()
		seen = append(seen, fmt.Sprint(columns, kind(err)))
		for at(); rows.Next(); at() {
			row := make([]sql.RawBytes, len(columns))
			dest := make([]any, len(columns))
			for i := range dest {
				dest[i] = &row[i]
			}
			at()
			err := rows.Scan(dest...)
			seen = append(seen, fmt.Sprintf("%.20s %s", row, kind(err)))
		}
		at()
		if !rows.NextResultSet() {
			return append(seen, kind(rows.Err()))
		}
		seen = append(seen, "next")
	}
}

func TestC65_UnderALockResultSetsFollowEachOtherAlsoWhenTheyWereReadAhead(t *testing.T) {
	eachMySQL(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		bare := view.Open(t)
		for _, ddl := range []string{
			"CREATE PROCEDURE two_sets(n INT) BEGIN SELECT n AS a; SELECT n + 1 AS b UNION ALL SELECT n + 2; END",
			"CREATE PROCEDURE fails_late() BEGIN SELECT 1; SELECT * FROM missing; END",
		} {
			_, err := bare.Exec(ddl)
			require.NoError(t, err)
		}
		for _, at := range []int{-1, 0, 1, 2, 4} {
			t.Run(fmt.Sprintf("the keeper reads ahead at step %d", at), func(t *testing.T) {
				t.Parallel()
				tp := newTap(t, view)
				dsn := tp.dsn + "&multiStatements=true"
				bare, err := sql.Open("mysql", dsn)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, bare.Close()) })
				db := openDSN(t, dsn)
				lk := acquire(t, db)
				for _, query := range multiQueries {
					rows, err := bare.Query(query)
					want := walk(rows, err, func(int) {})
					rows, err = db.QueryContext(lk.Context(), query)
					require.Equal(t, want, walk(rows, err, func(step int) {
						if step == at {
							tp.pinged(t, db)
						}
					}), query)
				}
				require.NoError(t, lk.Err())
			})
		}
	})
}

func TestUnderALockColumnTypesAreThoseOfTheDriverAlsoWhenTheyWereReadAhead(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		query := "SELECT 1, 1.50, 'x', x'00ff', NULL, NOW(6), CAST(1 AS UNSIGNED), 1e0"
		if !s.IsMySQL() {
			query = "SELECT 1, 1.50::numeric(5, 2), 'x', 'y'::varchar(7), NULL, now(), ARRAY[1], true, '{}'::jsonb"
		}
		tp := newTap(t, s)
		rows, err := s.Open(t).Query(query)
		want := observe(rows, err)
		db := openDSN(t, tp.dsn)
		lk := acquire(t, db)
		rows, err = db.QueryContext(lk.Context(), query)
		require.NoError(t, err)
		tp.pinged(t, db)
		got := observe(rows, nil)
		require.Equal(t, want[:len(want)-3], got[:len(got)-3], "all but the row, which may hold the time")
	})
}
