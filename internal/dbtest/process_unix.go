//go:build unix

package dbtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ownProcessGroup keeps an interrupt at the terminal away from a process.
func ownProcessGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// alive tells whether the program runs. The supervisor leaves no zombies.
func (p *supervised) alive() bool { return p.pid > 0 && syscall.Kill(p.pid, 0) == nil }

func (p *supervised) signal(sig syscall.Signal) error { return syscall.Kill(p.pid, sig) }

// signalAll signals the program and its children: PostgreSQL has a process for each connection. The
// program is stopped first, so that it makes no further children and does not react to their end.
func (p *supervised) signalAll(sig syscall.Signal) error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for _, pid := range descendants(p.pid) {
		_ = syscall.Kill(pid, sig)
	}
	if sig == syscall.SIGSTOP {
		return nil
	}
	return p.signal(sig)
}

func (p *supervised) stopAll() error { return p.signalAll(syscall.SIGSTOP) }
func (p *supervised) contAll() error { return p.signalAll(syscall.SIGCONT) }

// killAll kills the program with its children and returns when all are gone: a PostgreSQL does not
// start while an old backend is there.
func (p *supervised) killAll() error {
	_ = p.signal(syscall.SIGSTOP)
	all := append(descendants(p.pid), p.pid)
	if err := p.signalAll(syscall.SIGKILL); err != nil {
		return err
	}
	for end := time.Now().Add(startTimeout); ; time.Sleep(time.Millisecond) {
		if !slices.ContainsFunc(all, func(pid int) bool { return syscall.Kill(pid, 0) == nil }) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("pid %d or a child is still there %v after SIGKILL", p.pid, startTimeout)
		}
	}
}

// descendants returns the pids of all processes below pid.
func descendants(pid int) []int {
	children := make(map[int][]int)
	for child, parent := range parents() {
		children[parent] = append(children[parent], child)
	}
	var below []int
	for next := children[pid]; len(next) > 0; next = next[1:] {
		below = append(below, next[0])
		next = append(next, children[next[0]]...)
	}
	return below
}

// parents maps the pid of each running process to its parent's.
func parents() map[int]int {
	m := make(map[int]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		var pid, ppid int
		var state string
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // It has ended.
		}
		// The program's name in the middle may hold spaces and parentheses.
		name := strings.LastIndexByte(string(text), ')')
		_, err = fmt.Sscan(string(text), &pid)
		if _, err2 := fmt.Sscan(string(text[name+1:]), &state, &ppid); err == nil && err2 == nil && state != "Z" {
			m[pid] = ppid
		}
	}
	if len(stats) > 0 {
		return m
	}
	out, _ := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=").Output()
	for line := range strings.Lines(string(out)) {
		var pid, ppid int
		var state string
		if n, _ := fmt.Sscan(line, &pid, &ppid, &state); n == 3 && !strings.HasPrefix(state, "Z") {
			m[pid] = ppid
		}
	}
	return m
}
