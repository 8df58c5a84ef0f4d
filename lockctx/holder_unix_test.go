//go:build unix

package lockctx_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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

// holdEnv in its environment makes this program a process that only holds locks: see hold.
const holdEnv = "LOCKDB_TEST_HOLD"

func init() {
	if text := os.Getenv(holdEnv); text != "" {
		var order holdOrder
		if err := json.Unmarshal([]byte(text), &order); err != nil {
			panic(err)
		}
		if err := hold(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// holdOrder says which locks to hold, under what.
type holdOrder struct {
	DSN               string
	TTL               time.Duration
	Idle, InTx, Query string        // keys
	Large             string        // the query whose result is left unread under the lock Query
	Patience          time.Duration // how long to wait for the loss to be told
}

// holdReport is what became of them.
type holdReport struct {
	Told      map[string]bool // by key: the context ended with ErrLost
	Commit    string          // the error of Commit
	Committed bool
	CommitIs  bool // it is ErrLost or, when database/sql was first, ErrTxDone
}

// hold takes the locks, says so in a line, and when the process goes on after a stop commits at once,
// before anything of lockdb has had time to look around. Its second line is a holdReport.
func hold(order holdOrder) error {
	ctx := context.Background()
	c, err := driver.OpenConnector(order.DSN, driver.WithTTL(order.TTL), driver.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	db := sql.OpenDB(c)
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	locks := map[string]*lockctx.Lock{}
	for _, key := range []string{order.Idle, order.InTx, order.Query} {
		if locks[key], err = lockctx.Acquire(ctx, db, key); err != nil {
			return err
		}
	}
	tx, err := db.BeginTx(locks[order.InTx].Context(), nil)
	if err != nil {
		return err
	}
	if _, err := tx.Exec("INSERT INTO t VALUES (1, 0)"); err != nil {
		return err
	}
	rows, err := db.QueryContext(locks[order.Query].Context(), order.Large)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	rows.Next()
	fmt.Println("holding")

	<-goesOn
	err = tx.Commit()
	report := holdReport{Told: map[string]bool{}, Committed: err == nil, Commit: fmt.Sprint(err)}
	report.CommitIs = errors.Is(err, lockctx.ErrLost) || errors.Is(err, sql.ErrTxDone)
	patience, cancel := context.WithTimeout(ctx, order.Patience)
	defer cancel()
	for key, lk := range locks {
		select {
		case <-lk.Context().Done():
			report.Told[key] = errors.Is(lk.Context().Err(), lockctx.ErrLost)
		case <-patience.Done():
		}
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// holderProcess is another process that holds locks on a table of the test's.
type holderProcess struct {
	t     testing.TB
	order holdOrder
	cmd   *exec.Cmd
	out   *bufio.Reader
}

// startHolder returns when the process holds its locks.
func startHolder(t testing.TB, view *dbtest.Server, ttl, patience time.Duration) *holderProcess {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &holderProcess{t: t, cmd: exec.Command(self)}
	p.order = holdOrder{
		DSN: view.DSN(), TTL: ttl, Patience: patience, Large: manyRows(view, 32<<20), // more than sockets buffer
		Idle: dbtest.Key(t), InTx: dbtest.Key(t), Query: dbtest.Key(t),
	}
	text, err := json.Marshal(p.order)
	require.NoError(t, err)
	p.cmd.Env = append(os.Environ(), holdEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	pipe, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewReader(pipe)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	require.Equal(t, "holding\n", p.line())
	return p
}

func (p *holderProcess) line() string {
	p.t.Helper()
	return within(p.t, async(func() string {
		line, _ := p.out.ReadString('\n')
		return line
	}), 3*promptly, "a line of the holding process")
}

func (p *holderProcess) signal(sig syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

// waitForAll waits for the process's locks, by name.
func (p *holderProcess) waitForAll(db *sql.DB) map[string]<-chan grant {
	p.t.Helper()
	granted := map[string]<-chan grant{}
	for name, key := range map[string]string{"idle": p.order.Idle, "in a transaction": p.order.InTx, "under a result set": p.order.Query} {
		granted[name] = waitFor(testCtx(p.t), p.t, db, key)
	}
	return granted
}
