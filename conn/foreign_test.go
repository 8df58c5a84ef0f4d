package conn_test

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/lockctx"
)

func TestC65_AForeignDriverGetsTheSameCallsAndDatabaseSQLTheSameAnswers(t *testing.T) {
	for interfaces, wrap := range fakeConns {
		for answers, fail := range foreignAnswers {
			for name, use := range foreignCases {
				if name == arguments && interfaces == "bare" {
					continue // our conn has an ExecerContext: database/sql looks at arguments before it prepares
				}
				if name == twoTxs && answers == "ErrBadConn of Commit and Rollback" {
					continue // database/sql itself hangs: it closes the connection under the other transaction
				}
				t.Run(interfaces+"/"+answers+"/"+name, func(t *testing.T) {
					run := func(open func(*fakeDriver) *sql.DB) (out, calls []string) {
						d := &fakeDriver{wrap: wrap, fail: fail}
						db := open(d)
						d.take()
						out = foreignRun(t, db, use)
						out = append(out, fmt.Sprint(db.Close()))
						return out, d.take()
					}
					wantOut, wantCalls := run(func(d *fakeDriver) *sql.DB { return sql.OpenDB(d) })
					gotOut, gotCalls := run(func(d *fakeDriver) *sql.DB { return openFake(t, d) })
					require.Equal(t, wantOut, gotOut)
					require.Equal(t, wantCalls, gotCalls)
				})
			}
		}
	}
}

// While a lock is held, connections are dialled when they are first used: the
// calls come in another order, and the program sees the same.
func TestAProgramSeesTheSameOfAForeignDriverWhileALockIsHeldElsewhere(t *testing.T) {
	for interfaces, wrap := range fakeConns {
		if _, ok := wrap(&fakeConn{}).(sqldriver.QueryerContext); !ok {
			continue // without it there are no locks
		}
		for _, answers := range []string{"", "ErrSkip", "ErrBadConn of statements", "ErrBadConn of Commit and Rollback", "ErrBadConn of ResetSession"} {
			for name, use := range foreignCases {
				if name == twoTxs && answers == "ErrBadConn of Commit and Rollback" {
					continue // as above
				}
				t.Run(interfaces+"/"+answers+"/"+name, func(t *testing.T) {
					d := &fakeDriver{wrap: wrap, fail: foreignAnswers[answers]}
					bare := sql.OpenDB(d)
					want := foreignRun(t, bare, use)
					require.NoError(t, bare.Close())
					db := openFake(t, d)
					lk, err := lockctx.Acquire(testCtx(t), db, "key")
					require.NoError(t, err)
					require.Equal(t, want, foreignRun(t, db, use))
					require.NoError(t, lk.Close())
					require.NoError(t, db.Close())
				})
			}
		}
	}
}

func foreignRun(t *testing.T, db *sql.DB, use func(*testing.T, *sql.DB) []any) (out []string) {
	for _, o := range use(t, db) {
		out = append(out, fmt.Sprint(o))
	}
	return append(out, stats(db))
}

func openFake(t *testing.T, d *fakeDriver) *sql.DB {
	t.Helper()
	c, err := driver.NewConnector(d, driver.WithDialect(driver.MySQL))
	require.NoError(t, err)
	return sql.OpenDB(c)
}
