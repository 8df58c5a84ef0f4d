//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// stage is where the brokers of the demonstration are: it starts them, shows what
// they say, and hears it.
type stage struct {
	mu      sync.Mutex // guards out
	out     io.Writer
	events  chan event
	stopped chan struct{} // nobody listens any more
	cast    []*process
}

// event is a line of a broker's, or its end.
type event struct {
	from  *process
	text  string
	ended bool
}

func newStage(out io.Writer) *stage {
	return &stage{out: out, events: make(chan event), stopped: make(chan struct{})}
}

// Write keeps lines apart.
func (s *stage) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(b)
}

func (s *stage) say(what string, args ...any) { line(s, "demo", 0, what, args...) }

// process is a broker in a process of its own.
type process struct {
	name   string
	cmd    *exec.Cmd
	leaves bool          // it is meant to end
	ended  chan struct{} // closed when it has
	err    error         // how it ended; set before
	over   bool          // the stage knows
}

func (p *process) String() string { return fmt.Sprintf("%s (pid %d)", p.name, p.cmd.Process.Pid) }

func (p *process) signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// start starts this program again, as a broker. Should the demonstration be
// killed, the brokers end one after the other, by SIGPIPE when they write.
func (s *stage) start(c config, name string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, ended: make(chan struct{})}
	p.cmd = exec.Command(self, "-name", name, "-table", c.table, "-ttl", c.ttl.String(), "-work", c.work.String())
	p.cmd.Env = append(os.Environ(), dsnEnv+"="+c.dsn)
	p.cmd.Stderr = s
	said, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	s.cast = append(s.cast, p)
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			fmt.Fprintln(s, lines.Text())
			s.tell(event{from: p, text: lines.Text()})
		}
		p.err = p.cmd.Wait()
		s.tell(event{from: p, ended: true})
	}()
	return p, nil
}

func (s *stage) tell(e event) {
	select {
	case s.events <- e:
	case <-s.stopped:
	}
}

// awaitAny waits until a broker says the words, and tells which.
func (s *stage) awaitAny(ctx context.Context, words string) (*process, error) {
	return s.hear(ctx, fmt.Sprintf("%q", words), func(e event) bool { return strings.Contains(e.text, words) })
}

// awaitAll waits until that broker has said all that, in this order.
func (s *stage) awaitAll(ctx context.Context, p *process, all ...string) error {
	for _, words := range all {
		_, err := s.hear(ctx, fmt.Sprintf("%s to say %q", p, words), func(e event) bool {
			return e.from == p && strings.Contains(e.text, words)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitEnd waits until the broker has ended, as it should.
func (s *stage) awaitEnd(ctx context.Context, p *process) error {
	if !p.over {
		if _, err := s.hear(ctx, fmt.Sprintf("%s to end", p), func(e event) bool { return e.ended && e.from == p }); err != nil {
			return err
		}
	}
	return p.err
}

func (s *stage) hear(ctx context.Context, what string, meant func(event) bool) (*process, error) {
	for {
		select {
		case e := <-s.events:
			e.from.over = e.from.over || e.ended
			switch {
			case meant(e):
				return e.from, nil
			case e.ended && !e.from.leaves && ctx.Err() == nil: // an interrupt ends all
				return nil, fmt.Errorf("%s ended before its time: %v", e.from, e.from.cmd.ProcessState)
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
}

// clear ends the brokers that are left, stopped ones too.
func (s *stage) clear() {
	close(s.stopped)
	for _, p := range s.cast {
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

func (s *stage) nameOf(pid int64) string {
	for _, p := range s.cast {
		if int64(p.cmd.Process.Pid) == pid {
			return p.name
		}
	}
	return fmt.Sprintf("pid %d", pid)
}
