package dbtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const logName = "log"

// supervised is a folder of ours with at most one running program, both ended by a supervisor
// when end is called or this process ends.
type supervised struct {
	dir string
	who *account

	mu      sync.Mutex // guards all below; held while waiting for the supervisor's answers
	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Reader
	pipe    *os.File // under answers
	pid     int
}

// newSupervised makes a folder that belongs to who, and its supervisor.
func newSupervised(k Kind, who *account) (*supervised, error) {
	dir, err := os.MkdirTemp(runDir(), "lockdb-"+string(k)+"-")
	if err != nil {
		return nil, err
	}
	p := &supervised{dir: dir, who: who}
	if err = p.supervise(); err == nil {
		err = who.own(dir)
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return p, nil
}

// supervise starts the supervisor. Its output must not be ours: `go test` waits until every holder of
// the test's output has closed it.
func (p *supervised) supervise() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	spec, err := json.Marshal(supervisorSpec{Dir: p.dir, Who: p.who})
	if err != nil {
		return err
	}
	p.cmd = exec.Command(self)
	p.cmd.Env = append(os.Environ(), supervisorEnv+"="+string(spec),
		"GORACE=atexit_sleep_ms=0") // A program with the race detector lingers for a second otherwise.
	p.cmd.Dir = "/"
	p.cmd.SysProcAttr = ownProcessGroup()
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	answers, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.pipe = answers.(*os.File)
	p.answers = bufio.NewReader(answers)
	return p.cmd.Start()
}

// start runs argv in the folder, its output appended to the log.
func (p *supervised) start(argv []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	order, err := json.Marshal(argv)
	if err != nil {
		return err
	}
	if _, err := p.orders.Write(append(order, '\n')); err != nil {
		return fmt.Errorf("the supervisor has ended: %w", err)
	}
	for {
		a, err := p.answer()
		if err != nil {
			return err
		}
		if a.Err != "" {
			return fmt.Errorf("start %s: %s", filepath.Base(argv[0]), a.Err)
		}
		if a.Exited { // of a program before this one
			continue
		}
		p.pid = a.Pid
		return nil
	}
}

// run runs argv to its end.
func (p *supervised) run(argv []string) error {
	if err := p.start(argv); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a, err := p.answer()
	if err != nil {
		return err
	}
	if a.Status != 0 {
		return fmt.Errorf("%s failed (%d):\n%s", strings.Join(argv, " "), a.Status, logTail(p.dir))
	}
	return nil
}

func (p *supervised) answer() (a supervisorAnswer, err error) {
	if err := p.pipe.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		return a, err
	}
	line, err := p.answers.ReadBytes('\n')
	if err != nil {
		return a, fmt.Errorf("no answer from the supervisor: %w\n%s", err, logTail(p.dir))
	}
	return a, json.Unmarshal(line, &a)
}

// gone waits until the program has ended, at most for d, and tells whether it has.
func (p *supervised) gone(d time.Duration) bool {
	for end := time.Now().Add(d); p.alive(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// end kills the program, removes the folder, and returns when both are gone.
func (p *supervised) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.orders.Close()
	_ = p.cmd.Wait()
}
