//go:build unix

package lockctx_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// peerEnv in its environment, with a DSN, makes this program a peer: a process that does the jobs that
// it reads from its standard input, each on a goroutine of its own, until that ends.
const peerEnv = "LOCKDB_TEST_PEER"

func init() {
	if dsn := os.Getenv(peerEnv); dsn != "" {
		servePeer(dsn)
		os.Exit(0)
	}
}

// peer is what jobs work with, in their process.
type peer struct {
	dsn string
	db  *sql.DB

	mu    sync.Mutex // guards what follows
	locks map[string]*lockctx.Lock
	txs   map[string]*sql.Tx
}

type peerOrder struct {
	ID   int
	Job  string
	Args json.RawMessage
}

type peerAnswer struct {
	ID     int
	Result json.RawMessage
	Err    *peerError
}

// peerError is an error of another process. It still matches the sentinels that it matched there.
type peerError struct {
	Text    string
	Matches []string
}

func (e *peerError) Error() string { return e.Text }

func (e *peerError) Is(target error) bool { return slices.Contains(e.Matches, target.Error()) }

func newPeerError(err error) *peerError {
	e := &peerError{Text: err.Error()}
	for _, sentinel := range []error{
		lockctx.ErrNotAcquired, lockctx.ErrLost, lockctx.ErrReleased, lockctx.ErrDeadlock, lockctx.ErrBusy, lockctx.ErrUnsupported,
		lockctx.ErrClosed, lockctx.ErrOutcomeUnknown, context.Canceled, context.DeadlineExceeded, sql.ErrTxDone,
	} {
		if errors.Is(err, sentinel) {
			e.Matches = append(e.Matches, sentinel.Error())
		}
	}
	return e
}

// job is what a peer can be told to do.
type job[A, R any] struct{ name string }

var peerJobs = map[string]func(*peer, json.RawMessage) (any, error){}

// newJob is for package-level variables: both processes must know the job.
func newJob[A, R any](name string, f func(*peer, A) (R, error)) job[A, R] {
	peerJobs[name] = func(p *peer, raw json.RawMessage) (any, error) {
		var args A
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, err
		}
		return f(p, args)
	}
	return job[A, R]{name}
}

// done is what came of a job.
type done[R any] struct {
	R   R
	Err error
}

func servePeer(dsn string) {
	_ = mysql.SetLogger(&mysql.NopLogger{})
	c, err := driver.OpenConnector(dsn, driver.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	p := &peer{dsn: dsn, db: sql.OpenDB(c), locks: map[string]*lockctx.Lock{}, txs: map[string]*sql.Tx{}}
	var out sync.Mutex
	in, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o peerOrder
		if err := in.Decode(&o); err != nil {
			return
		}
		go func() {
			answer := peerAnswer{ID: o.ID}
			result, err := peerJobs[o.Job](p, o.Args)
			if err != nil {
				answer.Err = newPeerError(err)
			} else if answer.Result, err = json.Marshal(result); err != nil {
				panic(err)
			}
			out.Lock()
			defer out.Unlock()
			_ = answers.Encode(answer)
		}()
	}
}

// process is a peer as the test has it.
type process struct {
	t   testing.TB
	cmd *exec.Cmd

	mu      sync.Mutex // guards what follows, and writes to in
	in      *json.Encoder
	asked   int
	waiting map[int]func(peerAnswer)
}

// startPeer starts a process; it is killed when the test ends.
func startPeer(t testing.TB, view *dbtest.Server) *process {
	t.Helper()
	return startPeerDSN(t, view.DSN())
}

func startPeerDSN(t testing.TB, dsn string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{t: t, cmd: exec.Command(self), waiting: map[int]func(peerAnswer){}}
	p.cmd.Env = append(os.Environ(), peerEnv+"="+dsn)
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	p.in = json.NewEncoder(in)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	over := make(chan struct{})
	go func() {
		defer close(over)
		p.listen(out)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-over
		_ = p.cmd.Wait()
	})
	return p
}

func (p *process) listen(out io.Reader) {
	answers := json.NewDecoder(bufio.NewReader(out))
	for {
		var a peerAnswer
		if answers.Decode(&a) != nil {
			return
		}
		p.mu.Lock()
		tell := p.waiting[a.ID]
		delete(p.waiting, a.ID)
		p.mu.Unlock()
		tell(a)
	}
}

// begin has the process do the job, and does not wait for it.
func (j job[A, R]) begin(p *process, args A) <-chan done[R] {
	p.t.Helper()
	raw, err := json.Marshal(args)
	require.NoError(p.t, err)
	answered := make(chan done[R], 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	p.waiting[p.asked] = func(a peerAnswer) {
		var d done[R]
		if a.Err != nil {
			d.Err = a.Err
		} else if err := json.Unmarshal(a.Result, &d.R); err != nil {
			d.Err = fmt.Errorf("the answer of a peer: %w", err)
		}
		answered <- d
	}
	require.NoError(p.t, p.in.Encode(peerOrder{ID: p.asked, Job: j.name, Args: raw}))
	return answered
}

// do has the process do the job, and waits for it.
func (j job[A, R]) do(p *process, args A) (R, error) {
	p.t.Helper()
	d := within(p.t, j.begin(p, args), 3*promptly, "the end of the job "+j.name)
	return d.R, d.Err
}

// must is do for a job that has to succeed.
func (j job[A, R]) must(p *process, args A) R {
	p.t.Helper()
	r, err := j.do(p, args)
	require.NoError(p.t, err)
	return r
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

// stop returns when the process has stopped: a signal takes effect a moment after it was sent.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	var info syscall.WaitStatus
	require.Eventually(p.t, func() bool {
		pid, err := syscall.Wait4(p.cmd.Process.Pid, &info, syscall.WUNTRACED|syscall.WNOHANG, nil)
		return err == nil && pid == p.cmd.Process.Pid && info.Stopped()
	}, promptly, time.Millisecond)
}
