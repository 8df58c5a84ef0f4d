//go:build unix

package dbtest_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// private runs fn on a private server of each selected kind.
func private(t *testing.T, fn func(t *testing.T, s *dbtest.Server)) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) { fn(t, dbtest.Private(t, s.Kind())) })
}

func TestPrivateServerKeepsItsDataOverARestartAndAKill(t *testing.T) {
	private(t, func(t *testing.T, s *dbtest.Server) {
		addr, db := s.Addr(), s.Open(t)
		rows := func() (n int) {
			require.NoError(t, s.Open(t).QueryRow("SELECT COUNT(*) FROM kept").Scan(&n))
			return n
		}
		_, err := db.Exec("CREATE TABLE kept (n int)")
		require.NoError(t, err)
		_, err = db.Exec("INSERT INTO kept VALUES (1)")
		require.NoError(t, err)
		s.Restart(t)
		require.Equal(t, addr, s.Addr())
		require.Equal(t, 1, rows())
		s.Kill(t)
		require.Error(t, s.Open(t).Ping())
		s.Start(t)
		require.Equal(t, 1, rows())
	})
}

func TestPrivateServerHasTheSettingsThatWereAskedFor(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		s = dbtest.Private(t, s.Kind(), "max_connections=33")
		query := "SHOW max_connections"
		if s.IsMySQL() {
			query = "SELECT @@max_connections"
		}
		var got string
		require.NoError(t, s.Open(t).QueryRow(query).Scan(&got))
		require.Equal(t, "33", got)
	})
}

func TestNoGoroutineStaysBehindATest(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		before := goleak.IgnoreCurrent()
		t.Run("test", func(t *testing.T) {
			s := dbtest.Private(t, s.Kind())
			roundTrip(t, one(t, s, s.Relay(t).DSN()))
			s.Sessions(t)
			s.CreateDatabase(t)
		})
		goleak.VerifyNone(t, before)
	})
}

func TestStoppedServerAnswersAfterCont(t *testing.T) {
	private(t, func(t *testing.T, s *dbtest.Server) {
		c := one(t, s, s.DSN())
		roundTrip(t, c)
		s.Stop(t)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			roundTrip(t, c)
		}()
		select {
		case <-answered:
			t.Fatal("a stopped server answered")
		case <-time.After(quiet):
		}
		s.Cont(t)
		<-answered
	})
}

func TestKillSessionEndsThatSessionOnly(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		s = s.CreateDatabase(t)
		victim, other := one(t, s, s.DSN()), one(t, s, s.DSN())
		id := int64(0)
		query := "SELECT pg_backend_pid()"
		if s.IsMySQL() {
			query = "SELECT CONNECTION_ID()"
		}
		require.NoError(t, victim.QueryRowContext(t.Context(), query).Scan(&id))
		sessions := s.Sessions(t)
		require.Len(t, sessions, 2)
		require.True(t, sessions[0].ID == id || sessions[1].ID == id)
		s.KillSession(t, id)
		require.Eventually(t, func() bool {
			_, err := victim.ExecContext(t.Context(), "SELECT 1")
			return err != nil
		}, 20*time.Second, 5*time.Millisecond)
		roundTrip(t, other)
		require.Eventually(t, func() bool { return len(s.Sessions(t)) == 1 }, 20*time.Second, 5*time.Millisecond)
	})
}

func TestDatabasesAreDroppedThoughInUse(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		var name string
		outside := t // has what outlives the database
		t.Run("use", func(t *testing.T) {
			view := s.CreateDatabase(t)
			_, err := view.Open(t).Exec("CREATE TABLE t (n int)")
			require.NoError(t, err)
			tx, err := one(outside, view, view.DSN()).BeginTx(outside.Context(), nil)
			require.NoError(t, err)
			outside.Cleanup(func() { _ = tx.Rollback() })
			_, err = tx.Exec("INSERT INTO t VALUES (1)")
			require.NoError(t, err)
			query := "SELECT current_database()"
			if s.IsMySQL() {
				query = "SELECT DATABASE()"
			}
			require.NoError(t, tx.QueryRow(query).Scan(&name))
		})
		require.True(t, strings.HasPrefix(name, "lockdb_"), name)
		query := "SELECT COUNT(*) FROM pg_database WHERE datname = '" + name + "'"
		if s.IsMySQL() {
			query = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '" + name + "'"
		}
		var n int
		require.NoError(t, s.Open(t).QueryRow(query).Scan(&n))
		require.Zero(t, n)
	})
}

func TestPgBouncerSharesSessionsInTransactionMode(t *testing.T) {
	s := dbtest.Shared(t, dbtest.PgBouncer).CreateDatabase(t)
	pids := make(map[int64]bool)
	for range 5 {
		var pid int64
		require.NoError(t, one(t, s, s.DSN()).QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
		pids[pid] = true
	}
	require.Len(t, pids, 1)
	b := dbtest.Private(t, dbtest.PgBouncer)
	roundTrip(t, one(t, b, b.DSN()))
	b.Kill(t)
	require.Error(t, b.Open(t).Ping())
	b.Start(t)
	roundTrip(t, one(t, b, b.DSN()))
	b.Restart(t)
	roundTrip(t, one(t, b, b.DSN()))
}

// TestNothingOfAKilledTestProcessStays kills this program, started again, while it holds a server.
func TestNothingOfAKilledTestProcessStays(t *testing.T) {
	const env = "LOCKDB_DBTEST_VICTIM"
	if k := os.Getenv(env); k != "" {
		s := dbtest.Private(t, dbtest.Kind(k))
		if k != string(dbtest.MySQL) {
			s.Stop(t) // Stopped processes must go too.
		}
		fmt.Printf("victim %d %s\n", s.Pid(), s.Dir())
		select {}
	}
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		cmd := exec.Command(os.Args[0], "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$")
		cmd.Env = append(os.Environ(), env+"="+string(s.Kind()))
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var pid int
		var dir string
		for in := bufio.NewScanner(out); pid == 0 && in.Scan(); {
			_, _ = fmt.Sscanf(in.Text(), "victim %d %s", &pid, &dir)
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		require.NotZero(t, pid)
		require.Eventually(t, func() bool {
			_, err := os.Stat(dir)
			return os.IsNotExist(err) && syscall.Kill(pid, 0) == syscall.ESRCH
		}, 60*time.Second, 10*time.Millisecond)
	})
}

func TestKeysAreShortAndDistinct(t *testing.T) {
	a, b := dbtest.Key(t), dbtest.Key(t)
	require.NotEqual(t, a, b)
	require.Regexp(t, `^[a-z0-9_.:/-]{5,32}$`, a)
}
