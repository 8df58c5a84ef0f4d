package conn

import (
	"context"
	"database/sql/driver"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// forgotten is a statement that the server does not know.
type forgotten struct {
	driver.Stmt
	driver.StmtExecContext
	number uint16
}

func (s forgotten) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	return nil, &mysql.MySQLError{Number: s.number}
}

func (s forgotten) Exec([]driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), nil)
}

func TestAPreparedStatementThatTheServerForgotIsSentAsText(t *testing.T) {
	for _, number := range []uint16{1615, 1243} {
		c := &leaseConn{kept: []keptStmt{{text: "UPDATE t", stmt: forgotten{number: number}}}}
		for range 2 {
			_, sent, err := c.RunPrepared(t.Context(), "UPDATE t", nil)
			require.NoError(t, err)
			require.False(t, sent)
		}
		require.True(t, c.unprepared)
	}
	c := &leaseConn{kept: []keptStmt{{text: "UPDATE t", stmt: forgotten{number: 1205}}}}
	_, sent, err := c.RunPrepared(t.Context(), "UPDATE t", nil)
	require.Error(t, err)
	require.True(t, sent)
	require.False(t, c.unprepared)
}
