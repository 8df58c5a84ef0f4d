// Command withservers starts the selected test servers, runs a command with the variables that name
// them, stops the servers, and exits as the command did:
//
//	withservers [--] go test ./...
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockdb/lockdb/internal/dbtest"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withservers:", err)
	}
	os.Exit(code)
}

func run(argv []string) (code int, err error) {
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return 2, errors.New("usage: withservers [--] command [argument ...]")
	}
	// The command gets the terminal's signals too, and ends the tests; then the servers end here.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)

	began := time.Now()
	env, stop, err := dbtest.Start()
	if err != nil {
		return 1, err
	}
	defer stop()
	fmt.Fprintf(os.Stderr, "withservers: %d servers in %.1f s\n", len(env), time.Since(began).Seconds())

	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM {
				_ = cmd.Process.Signal(s)
			}
		}
	}()
	var exit *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil // -1 after a signal
	} else if err != nil {
		return 1, err
	}
	return 0, nil
}
