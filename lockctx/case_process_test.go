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
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// A test binary with these set is the process of C24 that ends in the middle.
const (
	childDSN = "LOCKCTX_TEST_CHILD_DSN"
	childKey = "LOCKCTX_TEST_CHILD_KEY"
	childEnd = "LOCKCTX_TEST_CHILD_END" // how it ends
)

func init() {
	if dsn := os.Getenv(childDSN); dsn != "" {
		holdAndEnd(dsn, os.Getenv(childKey), os.Getenv(childEnd))
	}
}

// holdAndEnd takes the lock, changes a row in a transaction, says so, and when
// told to it ends before the commit.
func holdAndEnd(dsn, key, end string) {
	c, err := driver.OpenConnector(dsn)
	if err != nil {
		panic(err)
	}
	db := sql.OpenDB(c)
	err = lockctx.InTx(context.Background(), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE t SET v = 100 WHERE id = 1"); err != nil {
			return err
		}
		fmt.Println("held")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until it is told to end, or killed
		switch end {
		case "exit":
			os.Exit(3)
		case "panic":
			panic("in the middle")
		}
		return context.Canceled
	})
	fmt.Fprintln(os.Stderr, err, db.Close())
	os.Exit(4)
}

func TestC24_AProcessThatEndsInTheMiddleLeavesNoLockBehind(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		tab.mustInsert(context.Background(), tab.bare, 1)
		db, out := open(t, view), newOutsider(t, view)
		for _, end := range []string{"exit", "panic", "error", "SIGKILL", "SIGTERM"} {
			t.Run(end, func(t *testing.T) {
				key := dbtest.Key(t)
				child := startChild(t, view, key, end)
				waiter := waitFor(testCtx(t), t, db, key)
				ended, stood := time.Now(), watchStandstill(t)
				switch end {
				case "SIGKILL":
					require.NoError(t, child.cmd.Process.Kill())
				case "SIGTERM":
					require.NoError(t, child.cmd.Process.Signal(syscall.SIGTERM))
				default:
					require.NoError(t, child.stdin.Close())
				}
				require.Error(t, child.cmd.Wait())
				g := within(t, waiter, promptly, "the next process")
				require.NoError(t, g.err)
				require.Less(t, g.at.Sub(ended), 2*time.Second+stood.time())
				require.NoError(t, g.lk.Close())
				require.True(t, out.try(key))
				require.NoError(t, increment(testCtx(t), db, 1))
			})
		}
		require.Equal(t, 5, tab.value(1), "half a transaction was committed")
	})
}

func TestC24_TheErrorTellsWhichProcessHoldsTheLockAndHowToLookAtIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		tab.mustInsert(context.Background(), tab.bare, 1)
		db, key := open(t, view), dbtest.Key(t)
		child := startChild(t, view, key, "SIGKILL")
		id := newOutsider(t, view).holder(key)
		require.NotZero(t, id)
		waits := map[string]func() error{
			"TryAcquire": func() error { _, err := lockctx.TryAcquire(testCtx(t), db, key); return err },
			"WithTimeout": func() error {
				_, err := lockctx.Acquire(testCtx(t), db, key, lockctx.WithTimeout(300*time.Millisecond))
				return err
			},
			"a deadline": func() error {
				ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
				defer cancel()
				_, err := lockctx.Acquire(ctx, db, key)
				return err
			},
			"a cancel": func() error {
				ctx, cancel := context.WithCancel(context.Background())
				time.AfterFunc(1500*time.Millisecond, cancel)
				_, err := lockctx.Acquire(ctx, db, key)
				return err
			},
		}
		for name, wait := range waits {
			err := wait()
			for tries := 0; tries < 5 && !strings.Contains(err.Error(), strconv.FormatInt(id, 10)); tries++ {
				err = wait() // a busy machine may have had no time to look for it
			}
			require.ErrorContains(t, err, strconv.FormatInt(id, 10), name)
			require.ErrorContains(t, err, key)
			require.ErrorContains(t, err, "SELECT", "the SQL to look at it")
			if s.IsMySQL() {
				require.ErrorContains(t, err, "PROCESSLIST")
				require.ErrorContains(t, err, "root@")
			} else {
				require.ErrorContains(t, err, "pg_stat_activity")
				require.ErrorContains(t, err, "since")
			}
			if s.Kind() != dbtest.MariaDB { // it does not keep what sessions say of themselves
				require.ErrorContains(t, err, "application \"lockdb")
				require.ErrorContains(t, err, strconv.Itoa(child.cmd.Process.Pid))
			}
		}
		require.NoError(t, child.cmd.Process.Kill())
		require.Error(t, child.cmd.Wait())
	})
}

// child is a process that holds a lock until its standard input ends.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// startChild returns when the child holds the lock. It is killed if it outlives
// the test.
func startChild(t *testing.T, s *dbtest.Server, key, end string) child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDSN+"="+s.DSN(), childKey+"="+key, childEnd+"="+end)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held", strings.TrimSpace(line))
	return child{cmd, stdin}
}
