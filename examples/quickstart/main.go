// Command quickstart shows what lockdb is for, in three short chapters: a lock
// that gets stuck in a connection pool, the same work through lockdb, and a
// counter that loses no update.
//
//	go run ./examples/quickstart                  on a server inside the program
//	go run ./examples/quickstart -dsn "<DSN>"     on your MySQL, MariaDB or PostgreSQL
//
// It ends with exit code 1 if anything is not as it tells.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"
)

func main() {
	flags := flag.NewFlagSet("quickstart", flag.ExitOnError) // the engine adds to the global one
	dsn := flags.String("dsn", "", "run on this `server` instead of the one inside the program, for example\n"+
		"user:password@tcp(127.0.0.1:3306)/dbname or postgres://user:password@127.0.0.1:5432/dbname\n"+
		"(without lockdb_ parameters: the bare driver gets it, too);\n"+
		"a table with a random name is made there, and dropped at the end")
	_ = flags.Parse(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *dsn); err != nil {
		fmt.Fprintln(os.Stderr, "\nquickstart:", err)
		os.Exit(1)
	}
}

// run tells the story to out. An empty dsn stands for the embedded server.
func run(ctx context.Context, out io.Writer, dsn string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()

	embedded, n := dsn == "", int64(42)
	if embedded {
		var stop func()
		dsn, stop, err = startEmbedded()
		if err != nil {
			return err
		}
		defer stop()
	} else {
		n = rand.Int64N(1_000_000) // the server may be in use
	}
	s, err := look(ctx, dsn, n)
	if err != nil {
		return err
	}
	where := "on your server, " + s.version
	if embedded {
		where = "on a small server inside this program (-dsn: on yours)"
	}
	drop, err := s.createTable(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if derr := drop(); err == nil {
			err = derr
		}
	}()

	fmt.Fprintf(out, "lockdb quickstart, %s\n", where)
	for _, chapter := range []struct {
		title string
		tell  func(context.Context, server, *page) error
	}{
		{"1  The bug: a lock taken through a connection pool (bare driver)", stuckLock},
		{"2  The same through lockdb", sameWithLockdb},
		{fmt.Sprintf("3  A counter: %d goroutines read it, add 1, write it back, %d times each", goroutines, turns), counter},
	} {
		p := newPage(out, chapter.title)
		err := chapter.tell(ctx, s, p)
		p.end()
		if err != nil {
			return fmt.Errorf("chapter %.1s is not as told: %w", chapter.title, err)
		}
	}
	fmt.Fprintf(out, "\nAll as told, in %v. What to read next:\n"+
		"   README.md                                 what lockdb promises, and what it does not\n"+
		"   examples/gorm, examples/sqlx              an ORM's code under a lock, unchanged\n"+
		"   examples/leader                           leases, among processes that are killed and stopped\n"+
		"   go doc github.com/lockdb/lockdb/lockctx   Acquire, TryAcquire, Do, InTx\n",
		time.Since(began).Round(time.Millisecond))
	return nil
}
