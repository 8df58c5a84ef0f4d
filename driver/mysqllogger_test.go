package driver_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

type recordingLogger struct {
	mu    sync.Mutex
	lines []string
}

func (l *recordingLogger) Print(v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprint(v...))
}

func (l *recordingLogger) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

func TestASocketThatLockdbClosesIsNoNewsInTheDriversLog(t *testing.T) {
	s := dbtest.Shared(t, dbtest.MySQL)
	config, err := mysql.ParseDSN(s.DSN())
	require.NoError(t, err)
	usual := config.Logger
	log := &recordingLogger{}
	require.NoError(t, mysql.SetLogger(log))
	t.Cleanup(func() { require.NoError(t, mysql.SetLogger(usual)) })

	db, err := sql.Open(driver.MySQLName, s.DSN())
	require.NoError(t, err)
	lk, err := lockctx.Acquire(context.Background(), db, dbtest.Key(t))
	require.NoError(t, err)
	var id int64
	require.NoError(t, db.QueryRowContext(lk.Context(), "SELECT CONNECTION_ID()").Scan(&id))
	s.KillSession(t, id)
	<-lk.Context().Done()
	require.NoError(t, db.Close()) // which waits until the session is closed
	require.NotContains(t, log.all(), "use of closed network connection")

	bare, err := mysql.ParseDSN("user@unix(/nowhere/at/all)/")
	require.NoError(t, err)
	bare.Logger.Print("from the user's logger")
	require.Contains(t, log.all(), "from the user's logger")
}
