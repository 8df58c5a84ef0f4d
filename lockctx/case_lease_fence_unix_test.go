//go:build unix

package lockctx_test

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

var fenceTime = flag.Duration("lease.fence", 3*time.Second, "how long processes append under a lease while they are stopped")

// Three processes contend for a lease and append rows with its token, while each is stopped or cut off for up to
// three times the TTL, at any step: also between the last look at the clock and the server's at the row.
//
// The order of commits is known in two ways. Half of the rows have a number, taken under a lock that their
// transaction keeps until it has committed. The other half take nothing that would keep the next holder from
// writing; they are in the order in which others came to see them. A number given out before the commit, as by
// auto-increment, would tell the order of inserts.
func TestI3_TokensNeverGoBackInTheOrderOfCommits(t *testing.T) {
	eachFencing(t, func(t *testing.T, view *dbtest.Server, tab *table) {
		for _, text := range appenderTables(view) {
			_, err := tab.bare.Exec(text)
			require.NoError(t, err)
		}
		key, stop, ttl := dbtest.Key(t), make(chan struct{}), time.Second
		if *fenceTime < 10*time.Second {
			ttl = 300 * time.Millisecond // for as many stops as in a longer time
		}
		var appenders []*appendProcess
		var faults sync.WaitGroup
		for i := range 3 {
			a := startAppender(t, view, appendOrder{Key: key, TTL: ttl, First: int64(i+1) << 32})
			appenders = append(appenders, a)
			faults.Go(func() { a.disturb(stop, 3*ttl) })
		}
		seen := &seenOrder{}
		for until := time.Now().Add(*fenceTime); time.Now().Before(until); time.Sleep(time.Millisecond) {
			seen.look(t, tab.bare)
		}
		close(stop)
		faults.Wait()
		for _, a := range appenders {
			require.NoError(t, a.stdin.Close())
		}
		committed, lost, atFence, unknown := map[int64]bool{}, map[int64]bool{}, 0, 0
		for _, a := range appenders {
			r := a.reports()
			t.Logf("%d leases, %d commits, %d at the fence refused, %d unknown, others %v", r.Leases, len(r.Committed), r.AtFence, r.Unknown, r.Refused)
			for what := range r.Refused {
				require.NotContains(t, what, "other: ")
				require.NotContains(t, what, "acquire: ")
			}
			for _, id := range r.Committed {
				committed[id] = true
			}
			for _, id := range r.Lost {
				lost[id] = true
			}
			unknown += r.Unknown
			atFence += r.AtFence
		}
		seen.look(t, tab.bare)
		t.Logf("%d commits of %d tenures, looked at %d times, %d refused at the fence", seen.rows(), len(seen.counts), seen.looks, atFence)
		require.NotEmpty(t, committed)
		requireNumbersInOrder(t, tab.bare)
		for _, id := range column(t, tab.bare, "SELECT id FROM appended") {
			require.False(t, lost[id], "row %d is there, whose Commit said that it is not", id)
			if !committed[id] {
				unknown--
			}
			delete(committed, id)
		}
		require.Empty(t, committed, "rows are not there whose Commit returned nil")
		require.GreaterOrEqual(t, unknown, 0, "rows are there whose Commit never said so")
		for _, a := range appenders {
			a.end()
		}
	})
}

// seenOrder is the order in which rows came to be seen: by token, how many.
type seenOrder struct {
	counts map[int64]int
	newest int64
	looks  int
}

// look sees what was committed since the last look. What a holder commits is all seen before anything of a later one
// is, or in the same look.
func (o *seenOrder) look(t *testing.T, bare *sql.DB) {
	t.Helper()
	rows, err := bare.Query("SELECT token, COUNT(*) FROM appended GROUP BY token")
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	now := map[int64]int{}
	newest := o.newest
	for rows.Next() {
		var token int64
		var n int
		require.NoError(t, rows.Scan(&token, &n))
		now[token] = n
		newest = max(newest, token)
		if token < o.newest {
			require.Equal(t, o.counts[token], n, "token %d had a commit after one of token %d", token, o.newest)
		}
	}
	require.NoError(t, rows.Err())
	o.counts, o.newest, o.looks = now, newest, o.looks+1
}

func (o *seenOrder) rows() (n int) {
	for _, c := range o.counts {
		n += c
	}
	return n
}

func requireNumbersInOrder(t *testing.T, bare *sql.DB) {
	t.Helper()
	tokens := column(t, bare, "SELECT token FROM appended WHERE n IS NOT NULL ORDER BY n")
	require.True(t, slices.IsSorted(tokens), "tokens go back in the order of commits")
}

func column(t *testing.T, bare *sql.DB, query string) (values []int64) {
	t.Helper()
	rows, err := bare.Query(query)
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var v int64
		require.NoError(t, rows.Scan(&v))
		values = append(values, v)
	}
	require.NoError(t, rows.Err())
	return values
}

// appendProcess is a process that appends, and the network between it and the server.
type appendProcess struct {
	t       *testing.T
	cmd     *exec.Cmd
	relay   *dbtest.Relay
	stdin   io.Closer
	commits chan struct{} // it is about to commit
	report  appendReport
	told    chan struct{} // closed when report is set
	said    chan struct{} // closed at its end
}

func startAppender(t *testing.T, view *dbtest.Server, order appendOrder) *appendProcess {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	a := &appendProcess{t: t, cmd: exec.Command(self), relay: view.Relay(t), commits: make(chan struct{}, 1), told: make(chan struct{}), said: make(chan struct{})}
	a.relay.SetDelay(time.Millisecond) // so that there is always something on its way
	order.DSN, order.MySQL = a.relay.DSN(), view.IsMySQL()
	text, err := json.Marshal(order)
	require.NoError(t, err)
	a.cmd.Env = append(os.Environ(), appendEnv+"="+string(text), "GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=0")
	a.cmd.Stderr = os.Stderr
	a.stdin, err = a.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := a.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, a.cmd.Start())
	go a.read(out)
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill()
		<-a.said
		_ = a.cmd.Wait()
	})
	return a
}

// read reads what the process says, until its end.
func (a *appendProcess) read(out io.Reader) {
	defer close(a.said)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() != commits {
			if json.Unmarshal(lines.Bytes(), &a.report) == nil {
				close(a.told)
			}
			continue
		}
		select {
		case a.commits <- struct{}{}:
		default:
		}
	}
}

// disturb stops the process, or its network, again and again, at any moment, or when it commits.
func (a *appendProcess) disturb(stop <-chan struct{}, most time.Duration) {
	for wait(stop, rand.N(most/2)) {
		if rand.IntN(3) > 0 {
			select {
			case <-a.commits: // an old one, perhaps
			default:
			}
			select {
			case <-a.commits:
			case <-stop:
			case <-time.After(most): // it waits for the lease
			}
		}
		if rand.IntN(3) == 0 {
			_ = a.cmd.Process.Signal(syscall.SIGSTOP)
		} else {
			a.relay.Cut()
		}
		wait(stop, rand.N(most))
		_ = a.cmd.Process.Signal(syscall.SIGCONT)
		a.relay.Heal()
	}
}

func wait(stop <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-stop:
		return false
	case <-timer.C:
		return true
	}
}

// reports returns what the process says of all that it has done.
func (a *appendProcess) reports() appendReport {
	a.t.Helper()
	within(a.t, a.told, 3*promptly, "the report of an appending process")
	return a.report
}

func (a *appendProcess) end() {
	a.t.Helper()
	require.NoError(a.t, a.cmd.Process.Signal(syscall.SIGTERM))
	within(a.t, a.said, 3*promptly, "the end of an appending process")
	require.NoError(a.t, a.cmd.Wait())
}
