package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// suite is the short set.
var suite = []struct{ bench, time string }{
	{"^PassThrough$", "200ms"},
	{"^PassThroughServer$///^ratio$", "500ms"},
	{"^AcquireClose$////^ratio$", "1s"},
	{"^AcquireCloseOwnCost$//", "300ms"},
	{"^InTx$///^ratio$", "1s"},
	{"^Peers$//^ratio$", "3s"},
	{"^LeaseAcquireClose$////^ratio$", "2s"},
	{"^FencedCommit$////^ratio$", "1s"},
	{"^Crowd$", "3x"},
	{"^CrowdLimit$", "5x"},
	{"^Processes$", "5x"},
	{"^Held$", "1x"},
	{"^Renewal$", "1x"},
	{"^HandOver$", "4x"},
	{"^Failover$", "2x"},
	{"^Loss$", "300x"},
}

// measure runs the suite and writes the results to the file.
func measure(ctx context.Context, benchtime, file string) (err error) {
	began := time.Now()
	env, stop, err := dbtest.Start()
	if err != nil {
		return err
	}
	defer stop()
	env = append(os.Environ(), env...)

	dir, err := os.MkdirTemp("", "lockdb-report-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "bench.test")
	if err := command(ctx, env, os.Stdout, "go", "test", "-c", "-o", program, "."); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	out := io.MultiWriter(os.Stdout, f)
	for _, c := range configuration(env, began) {
		fmt.Fprintf(out, "%s: %s\n", c.key, c.value)
	}
	for _, s := range suite {
		length := s.time
		if benchtime != "" {
			length = benchtime
		}
		if err := command(ctx, env, out, program, "-test.run", "^$", "-test.bench", "^Benchmark"+s.bench[1:], "-test.benchmem",
			"-test.benchtime", length, "-test.timeout", "5m"); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "took: %v\n", time.Since(began).Round(time.Second))
	return nil
}

func command(ctx context.Context, env []string, out io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %v: %w", filepath.Base(name), args, err)
	}
	return nil
}
