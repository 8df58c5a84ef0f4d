package lockctx_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// waitersAtServer counts the sessions that wait for a lock at the server.
func waitersAtServer(t testing.TB, s *dbtest.Server, db *sql.DB) (n int) {
	t.Helper()
	query := "SELECT count(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock' AND DB = DATABASE()"
	if !s.IsMySQL() {
		query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
	}
	require.NoError(t, db.QueryRow(query).Scan(&n))
	return n
}

func TestAtMostOneOfAProcessWaitsAtTheServer(t *testing.T) {
	turns := 200
	if testing.Short() {
		turns = 100
	}
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		s = s.CreateDatabase(t)
		db, watch, key := open(t, s), s.Open(t), dbtest.Key(t)
		var inside atomic.Int32
		most, looks := 0, 0
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for range turns {
					lk, err := lockctx.Acquire(testCtx(t), db, key)
					if err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) != 1 {
						t.Error("two are inside")
					}
					inside.Add(-1)
					if err := lk.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for {
			select {
			case <-done:
				require.LessOrEqual(t, most, 1)
				require.Positive(t, looks)
				return
			default:
				looks++
				most = max(most, waitersAtServer(t, s, watch))
			}
		}
	})
}

// TestChildTakesTurns is no test but a process of its own: when told to, it takes turns with 8 goroutines for a time, and
// tells how many it had.
func TestChildTakesTurns(t *testing.T) {
	dsn, key := os.Getenv("LOCKDB_TURNS_DSN"), os.Getenv("LOCKDB_TURNS_KEY")
	if dsn == "" {
		return
	}
	db := openDSN(t, dsn)
	require.NoError(t, acquire(t, db, dbtest.Key(t)).Close()) // a session is there
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until both are
	until := time.Now().Add(2 * time.Second)
	var turns atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for time.Now().Before(until) {
				lk, err := lockctx.Acquire(context.Background(), db, key)
				if err != nil {
					t.Error(err)
					return
				}
				turns.Add(1)
				if err := lk.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	fmt.Printf("turns=%d\n", turns.Load())
}

func TestTwoProcessesShareALockFairly(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for try := 1; ; try++ {
			turns := turnsOfTwo(t, s, dbtest.Key(t))
			t.Logf("turns: %v", turns)
			if total := turns[0] + turns[1]; min(turns[0], turns[1])*5 >= total {
				return
			}
			require.Less(t, try, 4, "a busy machine may prefer one of them, but not each time")
		}
	})
}

// turnsOfTwo has two processes begin at once, and returns how many turns each had.
func turnsOfTwo(t *testing.T, s *dbtest.Server, key string) (turns [2]int) {
	t.Helper()
	var lines [2]*bufio.Scanner
	var begin [2]io.Closer
	var cmds [2]*exec.Cmd
	next := func(i int, prefix string) string {
		for lines[i].Scan() {
			if rest, ok := strings.CutPrefix(lines[i].Text(), prefix); ok {
				return rest
			}
		}
		t.Fatalf("process %d never said %q", i, prefix)
		return ""
	}
	for i := range cmds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChildTakesTurns$")
		cmd.Env = append(os.Environ(), "LOCKDB_TURNS_DSN="+s.DSN(), "LOCKDB_TURNS_KEY="+key)
		cmd.Stderr = os.Stderr
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		cmds[i], begin[i], lines[i] = cmd, stdin, bufio.NewScanner(stdout)
	}
	for i := range cmds {
		next(i, "ready")
	}
	for _, b := range begin {
		require.NoError(t, b.Close())
	}
	for i, cmd := range cmds {
		n, err := strconv.Atoi(next(i, "turns="))
		require.NoError(t, err)
		turns[i] = n
		require.NoError(t, cmd.Wait())
	}
	return turns
}

func TestTenThousandWaitersOnAHundredKeysAreServedByFewSessions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		s = s.CreateDatabase(t)
		db, key := open(t, s), dbtest.Key(t)
		db.SetMaxOpenConns(4)
		var wg sync.WaitGroup
		for i := range 10_000 {
			wg.Go(func() {
				err := lockctx.Do(testCtx(t), db, key+strconv.Itoa(i%100), func(context.Context) error { return nil })
				if err != nil {
					t.Error(err)
				}
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		most, watch := 0, s.Open(t)
		watch.SetMaxOpenConns(1)
		for {
			select {
			case <-done:
				t.Logf("at most %d lock sessions", most)
				// 100 and 2 idle ones; those that are being closed are still listed.
				require.LessOrEqual(t, most, 150)
				return
			default:
				most = max(most, sessionsOf(t, s, watch)-1)
			}
		}
	})
}

// sessionsOf counts the sessions in the server's database.
func sessionsOf(t testing.TB, s *dbtest.Server, db *sql.DB) (n int) {
	t.Helper()
	query := "SELECT count(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE()"
	if !s.IsMySQL() {
		query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
	}
	require.NoError(t, db.QueryRow(query).Scan(&n))
	return n
}

func TestC14_CreateIndexConcurrentlyFinishesBesideWaiters(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres).CreateDatabase(t)
	db, bare, key := open(t, s), s.Open(t), dbtest.Key(t)
	_, err := bare.Exec("CREATE TABLE t (id int); INSERT INTO t SELECT generate_series(1, 1000)")
	require.NoError(t, err)
	holder := acquire(t, db, key)
	ctx, cancel := context.WithCancel(testCtx(t))
	var wg sync.WaitGroup
	for range 20 { // each a process of its own, as far as the server can tell
		other := open(t, s)
		wg.Go(func() { _, _ = lockctx.Acquire(ctx, other, key) })
	}
	require.Eventually(t, func() bool { return waitersAtServer(t, s, bare) >= 15 }, 10*time.Second, 10*time.Millisecond)
	start := time.Now()
	_, err = bare.Exec("CREATE INDEX CONCURRENTLY i ON t (id)")
	require.NoError(t, err)
	t.Logf("CREATE INDEX CONCURRENTLY took %v", time.Since(start))
	require.Less(t, time.Since(start), 5*time.Second)
	cancel()
	wg.Wait()
	require.NoError(t, holder.Close())
}
