//go:build unix

package dbtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// init turns this program into a supervisor if it was started as one. Being in init, it works in any
// test binary, before its tests. It also runs on the main thread, which ends only with the process: that
// is what a child's parent-death signal goes by.
func init() {
	text := os.Getenv(supervisorEnv)
	if text == "" {
		return
	}
	var spec supervisorSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = os.Unsetenv(supervisorEnv)
	supervisor{spec: spec, answers: json.NewEncoder(os.Stdout)}.run()
	os.Exit(0)
}

type supervisor struct {
	spec    supervisorSpec
	answers *json.Encoder
}

// run starts the programs that its standard input names and ends them all when that input ends.
func (s supervisor) run() {
	// Whoever interrupts the tests ends them, which ends the input.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	adoptOrphans()
	var mu sync.Mutex // keeps an end behind the start it belongs to
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	main := 0
	go func() {
		for range ended {
			mu.Lock()
			for {
				pid, status := reap()
				if pid <= 0 {
					break
				}
				if pid == main {
					_ = s.answers.Encode(supervisorAnswer{Pid: pid, Exited: true, Status: status})
				}
			}
			mu.Unlock()
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		mu.Lock()
		var a supervisorAnswer
		pid, err := s.start(in.Bytes())
		if a.Pid = pid; err != nil {
			a.Err = err.Error()
		}
		main = pid
		_ = s.answers.Encode(a)
		mu.Unlock()
	}
	s.end()
}

func (s supervisor) start(order []byte) (int, error) {
	var argv []string
	if err := json.Unmarshal(order, &argv); err != nil {
		return 0, err
	}
	log, err := os.OpenFile(filepath.Join(s.spec.Dir, logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Dir:   s.spec.Dir,
		Env:   append(os.Environ(), "LC_ALL=C"),
		Files: []*os.File{null, log, log},
		Sys:   childAttr(s.spec.Who),
	})
	if err != nil {
		return 0, err
	}
	pid := p.Pid // Release forgets it.
	return pid, p.Release()
}

// reap returns an ended child, or a pid of at most 0 if none has ended.
func reap() (pid, status int) {
	var ws syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
	if err != nil {
		return -1, 0
	}
	return pid, ws.ExitStatus()
}

// end kills every process below this one and removes the folder. A process that is just writing may add
// a file behind the removal's back, hence the repetition.
func (s supervisor) end() {
	for range 1000 {
		below := descendants(os.Getpid())
		for _, pid := range below {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(below) == 0 {
			removeSharedMemory(s.spec.Dir)
			if os.RemoveAll(s.spec.Dir) == nil {
				return
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// removeSharedMemory removes the System V segment that a killed PostgreSQL leaves: a machine has
// room for 4096 of them. The seventh line of postmaster.pid is its key and id.
func removeSharedMemory(dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 7 {
		return
	}
	var key, id int
	if n, _ := fmt.Sscan(lines[6], &key, &id); n == 2 {
		_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	}
}
