//go:build unix

package lockctx_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// sleeperEnv in its environment makes this program a process that is stopped while it holds a lease.
const sleeperEnv = "LOCKCTX_TEST_SLEEPER"

func init() {
	if text := os.Getenv(sleeperEnv); text != "" {
		var order sleeperOrder
		if err := json.Unmarshal([]byte(text), &order); err != nil {
			panic(err)
		}
		if err := order.obey(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// sleeperOrder says which lease to hold.
type sleeperOrder struct {
	DSN, Key string
	TTL      time.Duration
}

// sleeperReport is what came of it. Its first line has only the token.
type sleeperReport struct {
	Token      int64
	Commit     string
	CommitIs   bool // it is ErrLost or, when database/sql was first, ErrTxDone
	Err, Close string
	ErrIs      bool
	CloseIs    bool
}

// obey holds the lease with a row of token 1 not yet committed, and commits as soon as the process goes on
// after a stop.
func (o sleeperOrder) obey() error {
	ctx := context.Background()
	c, err := driver.OpenConnector(o.DSN)
	if err != nil {
		return err
	}
	db := sql.OpenDB(c)
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	lk, err := lockctx.Acquire(ctx, db, o.Key, lockctx.Lease(o.TTL))
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(lk.Context(), nil)
	if err != nil {
		return err
	}
	if _, err := tx.Exec("INSERT INTO t VALUES (1, 0)"); err != nil {
		return err
	}
	r := sleeperReport{Token: lk.Token()}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return err
	}
	<-goesOn
	err = tx.Commit()
	r.Commit, r.CommitIs = fmt.Sprint(err), errors.Is(err, lockctx.ErrLost) || errors.Is(err, sql.ErrTxDone)
	err = lk.Err()
	r.Err, r.ErrIs = fmt.Sprint(err), errors.Is(err, lockctx.ErrLost)
	err = lk.Close()
	r.Close, r.CloseIs = fmt.Sprint(err), errors.Is(err, lockctx.ErrLost)
	return json.NewEncoder(os.Stdout).Encode(r)
}

func TestC55_AHolderThatWasStoppedBeyondItsTTLCommitsNothing(t *testing.T) {
	const ttl = time.Second
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		db, rows, key := open(t, view), newLeaseTable(t, view), dbtest.Key(t)
		text, err := json.Marshal(sleeperOrder{view.DSN(), key, ttl})
		require.NoError(t, err)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), sleeperEnv+"="+string(text))
		cmd.Stderr = os.Stderr
		pipe, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		out := bufio.NewReader(pipe)
		report := func() (r sleeperReport) {
			line := within(t, async(func() []byte { line, _ := out.ReadBytes('\n'); return line }), 3*promptly, "a report")
			require.NoError(t, json.Unmarshal(line, &r), "%q", line)
			return r
		}
		former := report()

		require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
		stopped := time.Now()
		lk := acquire(t, db, key, lockctx.Lease(time.Minute))
		require.Less(t, time.Since(stopped), ttl+promptly)
		require.Greater(t, lk.Token(), former.Token)
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		tab.mustInsert(testCtx(t), tx, 2)
		require.NoError(t, tx.Commit())
		before, _ := rows.look(key)

		require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
		r := report()
		require.True(t, r.CommitIs, r.Commit)
		require.True(t, r.ErrIs, r.Err)
		require.True(t, r.CloseIs, r.Close)
		require.Equal(t, []int{2}, tab.ids())
		after, _ := rows.look(key)
		require.Equal(t, before.owner, after.owner)
		require.Equal(t, before.token, after.token)
		require.NoError(t, lk.Err())
		require.NoError(t, lk.Close())
	})
}
