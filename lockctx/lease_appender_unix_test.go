//go:build unix

package lockctx_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// appendEnv in its environment makes this program a process that appends rows under a lease: see append.
const appendEnv = "LOCKDB_TEST_APPEND"

func init() {
	if text := os.Getenv(appendEnv); text != "" {
		a := appender{report: appendReport{Refused: map[string]int{}}}
		if err := json.Unmarshal([]byte(text), &a.appendOrder); err != nil {
			panic(err)
		}
		if err := a.run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

type appendOrder struct {
	DSN, Key string
	MySQL    bool
	TTL      time.Duration
	First    int64 // the first id of its rows; no other process uses those that follow
}

// appendReport is what a process says at its end.
type appendReport struct {
	Leases    int
	Committed []int64 // ids of rows whose Commit returned nil
	Lost      []int64 // ids of rows whose Commit said that nothing was committed
	Unknown   int
	AtFence   int            // of Lost: it was the server that refused
	Refused   map[string]int // other errors
}

// commits is the line that a process writes before some of its commits, for who wants to disturb it then.
const commits = "commits"

// appender contends for a lease and appends rows (id, token, n) while it has it, in transactions of all isolation
// levels: n counts the commits, or is NULL.
type appender struct {
	appendOrder
	db     *sql.DB
	id     int64
	report appendReport
}

// run goes on until its standard input ends. Its last line is the report, after which it waits for a SIGTERM: PgBouncer
// 1.18 ends itself when a client goes away that has just asked for the cancel of a statement.
func (a *appender) run() error {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	c, err := driver.OpenConnector(a.DSN, driver.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	a.db, a.id = sql.OpenDB(c), a.First
	for ctx.Err() == nil {
		lk, err := lockctx.Acquire(ctx, a.db, a.Key, lockctx.Lease(a.TTL))
		if err != nil {
			if ctx.Err() == nil {
				a.report.Refused["acquire: "+err.Error()]++
			}
			continue
		}
		a.report.Leases++
		for until := time.Now().Add(rand.N(a.TTL / 2)); time.Now().Before(until) && lk.Err() == nil; {
			a.append(lk)
		}
		_ = lk.Close()
	}
	err = json.NewEncoder(os.Stdout).Encode(a.report)
	<-end
	return err
}

// append appends a row. Whatever step it is stopped at, its context, or the Err of the lock, may not know yet that the
// lease is over when it goes on.
func (a *appender) append(lk *lockctx.Lock) {
	a.id++
	ctx := context.WithoutCancel(lk.Context())
	tx, err := a.db.BeginTx(ctx, &sql.TxOptions{Isolation: levels[rand.IntN(len(levels))]})
	if err != nil {
		a.refused("begin", err)
		return
	}
	defer func() { _ = tx.Rollback() }()
	var one int
	if err := tx.QueryRowContext(ctx, "SELECT one FROM snapshot").Scan(&one); err != nil {
		a.refused("snapshot", err)
		return
	}
	dally()
	if rand.IntN(2) == 0 {
		err = a.inOrder(ctx, tx, lk.Token())
	} else {
		_, err = tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO appended VALUES (%d, %d, NULL)", a.id, lk.Token()))
		dally()
	}
	if err != nil {
		a.refused("insert", err)
		return
	}
	if rand.IntN(3) == 0 {
		fmt.Println(commits)
	}
	switch err := tx.Commit(); {
	case err == nil:
		a.report.Committed = append(a.report.Committed, a.id)
	case errors.Is(err, lockctx.ErrOutcomeUnknown):
		a.report.Unknown++
	default:
		a.report.Lost = append(a.report.Lost, a.id)
		if errors.Is(err, lockctx.ErrLost) && atFence(err) {
			a.report.AtFence++
		} else {
			a.refused("commit", err)
		}
	}
}

// inOrder appends a row with the number that it has in the order of commits: one that takes a number has let no
// other do so until it has committed. Neither the lock that does this nor the number belongs to the transaction's
// snapshot, so that it is not this that a snapshot which is too old fails at.
func (a *appender) inOrder(ctx context.Context, tx *sql.Tx, token int64) error {
	if !a.MySQL {
		_, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(1)")
		if err == nil {
			_, err = tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO appended VALUES (%d, %d, nextval('commits'))", a.id, token))
		}
		return err
	}
	res, err := tx.ExecContext(ctx, "UPDATE commits SET n = LAST_INSERT_ID(n + 1)")
	if err != nil {
		return err
	}
	n, err := res.LastInsertId()
	if err == nil {
		_, err = tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO appended VALUES (%d, %d, %d)", a.id, token, n))
	}
	return err
}

func (a *appender) refused(step string, err error) {
	class := "other: " + err.Error()
	switch {
	case errors.Is(err, lockctx.ErrLost):
		class = "lost"
	case errors.Is(err, lockctx.ErrReleased):
		class = "released"
	case errors.Is(err, sql.ErrTxDone):
		class = "done"
	case conflict(err):
		class = "conflict"
	}
	a.report.Refused[step+": "+class]++
}

func appenderTables(s *dbtest.Server) []string {
	commits := "CREATE SEQUENCE commits"
	if s.IsMySQL() {
		commits = "CREATE TABLE commits AS SELECT 0 AS n"
	}
	return []string{
		"CREATE TABLE appended (id BIGINT PRIMARY KEY, token BIGINT NOT NULL, n BIGINT UNIQUE)",
		"CREATE INDEX appended_token ON appended (token)",
		"CREATE TABLE snapshot (one BIGINT PRIMARY KEY)",
		"INSERT INTO snapshot VALUES (1)",
		commits,
	}
}
