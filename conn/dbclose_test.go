package conn_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

var busy = driver.WithBusyTimeout(200 * time.Millisecond)

func TestTheDatabaseCanBeClosedWhileALocksSessionIsInTheUsersHands(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view := s.CreateDatabase(t)
		for name, dsnOpen := range map[string]bool{"dialled by lockdb": true, "dialled by others": false} {
			t.Run(name, func(t *testing.T) {
				db := openForeign(t, view, view.DSN(), busy)
				if dsnOpen {
					db = open(t, view, busy)
				}
				lk := acquire(t, db)
				c, err := lk.Conn(testCtx(t))
				require.NoError(t, err)
				rawID(t, view, c)
				requireCloses(t, db, "it waits for the user")
				_ = c.Close()
				require.Eventually(t, func() bool { return len(view.Sessions(t)) == 0 }, 20*time.Second, 10*time.Millisecond)
			})
		}
	})
}

func TestTheDatabaseCanBeClosedWhileACallIsCutOff(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for name, openIt := range map[string]func(t *testing.T, dsn string) *sql.DB{
			"dialled by lockdb": func(t *testing.T, dsn string) *sql.DB { return openDSN(t, dsn, busy) },
			"dialled by others": func(t *testing.T, dsn string) *sql.DB { return openForeign(t, s, dsn, busy) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				relay := s.Relay(t)
				db := openIt(t, relay.DSN())
				lk := acquire(t, db)
				tx, err := db.BeginTx(lk.Context(), nil)
				require.NoError(t, err)
				relay.Cut()
				committed := make(chan error, 1)
				go func() { committed <- tx.Commit() }()
				closed := make(chan error, 1)
				time.AfterFunc(50*time.Millisecond, func() { closed <- db.Close() })
				select {
				case err := <-closed:
					require.NoError(t, err)
				case <-time.After(30 * time.Second):
					t.Error("it waits for the network")
				}
				relay.Heal()
				<-committed
			})
		}
	})
}
