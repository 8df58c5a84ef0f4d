// Command leader is a small broker that runs in several processes, of which one
// at a time leads: it holds a lease, and writes messages to a table, each in a
// transaction under the lease's context. The others stand by.
//
//	go run ./examples/leader -dsn 'user:password@tcp(127.0.0.1:3306)/dbname'
//	go run ./examples/leader -dsn 'postgres://user:password@127.0.0.1:5432/dbname'
//
// is one broker: start two or more, in terminals of their own, and kill, stop or
// interrupt the one that leads. With -demo the program does that itself, and ends
// with exit code 1 if anything is not as it tells:
//
//	go run ./examples/leader -demo -dsn '…'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// config is what the flags say.
type config struct {
	dsn   string
	name  string
	owner string
	table string
	ttl   time.Duration
	work  time.Duration
}

// dsnEnv is where the DSN is if no flag has it: other users see a process's
// flags, and the DSN may have a password in it.
const dsnEnv = "LOCKDB_EXAMPLE_DSN"

func main() {
	var c config
	flags := flag.NewFlagSet("leader", flag.ExitOnError)
	flags.StringVar(&c.dsn, "dsn", "", "where the `server` is, as its Go driver has it (or the environment variable "+dsnEnv+")")
	flags.StringVar(&c.name, "name", fmt.Sprintf("broker %d", os.Getpid()), "what the broker calls itself in its output")
	flags.StringVar(&c.owner, "owner", "", "the holder's `id`: a broker that starts again with it takes its own lease over at once")
	flags.StringVar(&c.table, "table", "lockdb_example_broker", "the `table` for the messages; the leases' is the same with _lease")
	flags.DurationVar(&c.ttl, "ttl", 3*time.Second, "how long the lease outlives a broker that gives no sign of life")
	flags.DurationVar(&c.work, "work", 400*time.Millisecond, "how long a message takes, with its transaction open")
	demo := flags.Bool("demo", false, "start three brokers, and kill, stop and end them in turn")
	_ = flags.Parse(os.Args[1:])
	if c.dsn == "" {
		c.dsn = os.Getenv(dsnEnv)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := runBroker
	if *demo {
		run = runDemo
	}
	if err := run(ctx, os.Stdout, c); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "leader:", err)
		os.Exit(1)
	}
}

// line is a line of the output: when, who, with which token (0: none), and what.
func line(out io.Writer, who string, token int64, what string, args ...any) {
	mark := "-"
	if token != 0 {
		mark = fmt.Sprint(token)
	}
	fmt.Fprintf(out, "%s  %-10s  %16s  %s\n", time.Now().Format("15:04:05.000"), who, mark, fmt.Sprintf(what, args...))
}
