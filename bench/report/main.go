// Command report runs a short set of the benchmarks, in less than ten minutes, and
// writes what they say into its own folder: README.md with tables, plots, and
// results.txt as benchstat reads it. Run it in the folder bench:
//
//	go run ./report                                  all
//	go run ./report -benchtime 1x                    to see whether all works
//	go run ./report -from report/results.txt         no benchmarks, only the tables and plots
//
// It starts the servers that LOCKDB_TEST_MYSQL and the like do not name.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	from := flag.String("from", "", "the `file` of results to render, instead of running benchmarks")
	benchtime := flag.String("benchtime", "", "of every benchmark, instead of its own")
	out := flag.String("out", "report", "the `folder` to write to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *from, *benchtime, *out); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, from, benchtime, out string) error {
	if info, err := os.Stat(out); err != nil || !info.IsDir() {
		return fmt.Errorf("no folder %s: run this in the folder bench", out)
	}
	if from == "" {
		from = filepath.Join(out, "results.txt")
		if err := measure(ctx, benchtime, from); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	r := parse(string(text))
	if len(r.values) == 0 {
		return errors.New("there are no results in " + from)
	}
	if err := os.WriteFile(filepath.Join(out, "README.md"), []byte(document(r)), 0o644); err != nil {
		return err
	}
	for name, draw := range plots {
		if err := draw(r, filepath.Join(out, name+".svg")); err != nil {
			return fmt.Errorf("%s.svg: %w", name, err)
		}
	}
	return nil
}
