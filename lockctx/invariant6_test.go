package lockctx_test

import (
	"bytes"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// idleTTL is long enough for a busy machine not to lose a lock by being late; idle is how long tests leave things open
// under it.
const (
	idleTTL = 2 * time.Second
	idle    = 2 * idleTTL
)

// leftOpen is something that a client who lives leaves open under a lock.
type leftOpen struct {
	name string
	// begin opens it and returns what is checked when time has passed.
	begin func(t *testing.T, s *dbtest.Server, db *sql.DB, tab *table, lk *lockctx.Lock) (end func())
	lacks func(s *dbtest.Server) bool // tells whether the server has no such thing
}

func onlyMySQL(s *dbtest.Server) bool    { return !s.IsMySQL() }
func onlyPostgres(s *dbtest.Server) bool { return s.IsMySQL() }

// checkRows reads rows (n, text) of manyRows on from number next to number last.
func checkRows(t *testing.T, rows *sql.Rows, next, last int) {
	t.Helper()
	want := strings.Repeat("x", rowSize)
	for ; rows.Next(); next++ {
		var n int
		var text string
		require.NoError(t, rows.Scan(&n, &text))
		require.Equal(t, next, n)
		require.Equal(t, want, text)
	}
	require.NoError(t, rows.Err())
	require.Equal(t, last+1, next, "the number of rows")
}

// querying is a way to query; finish ends it once the rows are closed.
type querying func(db *sql.DB, lk *lockctx.Lock, text string) (rows *sql.Rows, finish func() error, err error)

func leaveRows(bytes, read int, query querying) func(*testing.T, *dbtest.Server, *sql.DB, *table, *lockctx.Lock) func() {
	return func(t *testing.T, s *dbtest.Server, db *sql.DB, _ *table, lk *lockctx.Lock) func() {
		rows, finish, err := query(db, lk, manyRows(s, bytes))
		require.NoError(t, err)
		t.Cleanup(func() { _ = rows.Close() })
		for range read {
			require.True(t, rows.Next())
		}
		return func() {
			checkRows(t, rows, read+1, bytes/rowSize)
			require.NoError(t, rows.Close())
			require.NoError(t, finish())
		}
	}
}

func onDB(db *sql.DB, lk *lockctx.Lock, text string) (*sql.Rows, func() error, error) {
	rows, err := db.QueryContext(lk.Context(), text)
	return rows, func() error { return nil }, err
}

func onStmt(db *sql.DB, lk *lockctx.Lock, text string) (*sql.Rows, func() error, error) {
	stmt, err := db.PrepareContext(lk.Context(), text)
	if err != nil {
		return nil, nil, err
	}
	rows, err := stmt.QueryContext(lk.Context())
	return rows, stmt.Close, err
}

func onTx(db *sql.DB, lk *lockctx.Lock, text string) (*sql.Rows, func() error, error) {
	tx, err := db.BeginTx(lk.Context(), nil)
	if err != nil {
		return nil, nil, err
	}
	rows, err := tx.Query(text)
	return rows, tx.Commit, err
}

// leaveBytes leaves a result set of bytes, with a row in the user's hands that is the driver's memory.
func leaveBytes(t *testing.T, s *dbtest.Server, db *sql.DB, _ *table, lk *lockctx.Lock) func() {
	text := "SELECT REPEAT(CHAR(97 + n USING binary), 2000) FROM (SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) AS t ORDER BY n"
	if !s.IsMySQL() {
		text = "SELECT convert_to(repeat(chr(97 + n), 2000), 'UTF8') FROM generate_series(0, 3) AS n ORDER BY n"
	}
	want := func(n int) []byte { return bytes.Repeat([]byte{byte('a' + n)}, 2000) }
	rows, err := db.QueryContext(lk.Context(), text)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rows.Close() })
	require.True(t, rows.Next())
	var raw sql.RawBytes
	require.NoError(t, rows.Scan(&raw))
	return func() {
		require.Equal(t, want(0), []byte(raw), "a row that was scanned before")
		for n := 1; rows.Next(); n++ {
			require.NoError(t, rows.Scan(&raw))
			require.Equal(t, want(n), []byte(raw))
		}
		require.NoError(t, rows.Err())
	}
}

// leaveSets leaves several result sets of different shape, read into the first.
func leaveSets(t *testing.T, _ *dbtest.Server, db *sql.DB, _ *table, lk *lockctx.Lock) func() {
	rows, err := db.QueryContext(lk.Context(), "SELECT 1 AS a UNION SELECT 2; SELECT 'x' AS b, 3 AS c; SELECT 4 AS d WHERE FALSE; SELECT 5 AS e")
	require.NoError(t, err)
	t.Cleanup(func() { _ = rows.Close() })
	require.True(t, rows.Next())
	return func() {
		var a, c, e int
		var b string
		require.NoError(t, rows.Scan(&a))
		require.Equal(t, 1, a)
		require.True(t, rows.Next())
		require.NoError(t, rows.Scan(&a))
		require.Equal(t, 2, a)
		require.False(t, rows.Next())
		for _, columns := range [][]string{{"b", "c"}, {"d"}, {"e"}} {
			require.True(t, rows.NextResultSet())
			names, err := rows.Columns()
			require.NoError(t, err)
			require.Equal(t, columns, names)
			types, err := rows.ColumnTypes()
			require.NoError(t, err)
			require.Len(t, types, len(columns))
			require.Equal(t, columns[0] != "d", rows.Next())
			switch columns[0] {
			case "b":
				require.NoError(t, rows.Scan(&b, &c))
			case "e":
				require.NoError(t, rows.Scan(&e))
			}
		}
		require.Equal(t, []any{"x", 3, 5}, []any{b, c, e})
		require.False(t, rows.NextResultSet())
		require.NoError(t, rows.Err())
	}
}

var leftOpens = []leftOpen{
	{name: "a small result set", begin: leaveRows(3*rowSize, 1, onDB)},
	{name: "an unread result set", begin: leaveRows(3*rowSize, 0, onDB)},
	{name: "a large result set", begin: leaveRows(8<<20, 10, onDB)},
	{name: "a prepared statement's result set", begin: leaveRows(1<<20, 10, onStmt)},
	{name: "a transaction's result set", begin: leaveRows(1<<20, 10, onTx)},
	{name: "a result set of bytes", begin: leaveBytes},
	{name: "several result sets", begin: leaveSets, lacks: onlyMySQL},
	{name: "a transaction", begin: leaveTx},
	{name: "a transaction without a statement", begin: leaveSnapshot},
	{name: "an aborted transaction", begin: leaveAborted, lacks: onlyPostgres},
	{name: "nothing", begin: func(*testing.T, *dbtest.Server, *sql.DB, *table, *lockctx.Lock) func() { return func() {} }},
}

func TestI6_WhatALivingClientLeavesOpenDoesNotCostTheLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		dsn := view.DSN()
		if s.IsMySQL() {
			dsn += "&multiStatements=true"
		}
		db, out := openDSN(t, dsn, driver.WithTTL(idleTTL)), newOutsider(t, view)
		type one struct {
			name string
			lk   *lockctx.Lock
			end  func()
		}
		var all []one
		for _, l := range leftOpens {
			if l.lacks == nil || !l.lacks(s) {
				lk := acquire(t, db, dbtest.Key(t))
				all = append(all, one{l.name, lk, l.begin(t, s, db, tab, lk)})
			}
		}
		for until := time.Now().Add(idle); time.Now().Before(until); time.Sleep(idleTTL / 10) {
			for _, o := range all {
				require.NoError(t, o.lk.Err(), o.name)
				require.False(t, out.try(o.lk.Key()), o.name)
			}
		}
		for _, o := range all {
			o.end()
			require.NoError(t, o.lk.Err(), o.name)
			require.False(t, out.try(o.lk.Key()), o.name)
			require.NoError(t, o.lk.Close(), o.name)
			require.True(t, out.try(o.lk.Key()), o.name)
		}
	})
}
