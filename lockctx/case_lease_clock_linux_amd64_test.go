package lockctx_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// clockEnv in its environment makes this program a process that takes leases by a clock of its own.
const clockEnv = "LOCKCTX_TEST_CLOCK"

func init() {
	if text := os.Getenv(clockEnv); text != "" {
		var order clockOrder
		if err := json.Unmarshal([]byte(text), &order); err != nil {
			panic(err)
		}
		report := order.obey()
		_ = json.NewEncoder(os.Stdout).Encode(report)
		_, _ = os.Stdin.Read(make([]byte, 1)) // until it is told to end, or killed
		os.Exit(0)
	}
}

// clockOrder says what to do.
type clockOrder struct {
	DSN   string
	Key   string
	TTL   time.Duration
	Turns int // 0: take the lease and keep it
}

// clockReport is what came of it.
type clockReport struct {
	Now     time.Time     // by the process's clock
	Longest time.Duration // turn
	Err     string
}

func (o clockOrder) obey() clockReport {
	r := clockReport{Now: time.Now()}
	c, err := driver.OpenConnector(o.DSN)
	if err == nil {
		db := sql.OpenDB(c)
		for turn := 0; err == nil && turn < o.Turns; turn++ {
			began := time.Now()
			err = clockTurn(db, o.Key, o.TTL)
			r.Longest = max(r.Longest, time.Since(began))
		}
		if err == nil && o.Turns == 0 {
			_, err = lockctx.Acquire(context.Background(), db, o.Key, lockctx.Lease(o.TTL))
		}
	}
	if err != nil {
		r.Err = err.Error()
	}
	return r
}

// clockTurn holds the lease for a moment. Row 2 of the table is there while somebody is inside, and row 1 has the
// last token.
func clockTurn(db *sql.DB, key string, ttl time.Duration) error {
	return lockctx.Do(context.Background(), db, key, func(ctx context.Context) error {
		if _, err := db.ExecContext(ctx, "INSERT INTO t VALUES (2, 0)"); err != nil {
			return fmt.Errorf("two are inside: %w", err)
		}
		lk, _ := lockctx.FromContext(ctx)
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		var last int64
		err = tx.QueryRowContext(ctx, "SELECT v FROM t WHERE id = 1").Scan(&last)
		if err == nil && last >= lk.Token() {
			err = fmt.Errorf("token %d after %d", lk.Token(), last)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, fmt.Sprintf("UPDATE t SET v = %d WHERE id = 1", lk.Token()))
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, "DELETE FROM t WHERE id = 2")
		return err
	}, lockctx.Lease(ttl))
}

// clockChild is a process with a clock of its own.
type clockChild struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   <-chan clockReport
}

func startClock(t testing.TB, order clockOrder, ahead time.Duration) *clockChild {
	t.Helper()
	text, err := json.Marshal(order)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), clockEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	startShifted(t, cmd, ahead)
	return &clockChild{cmd, stdin, async(func() (r clockReport) {
		line, _ := bufio.NewReader(stdout).ReadBytes('\n')
		if err := json.Unmarshal(line, &r); err != nil {
			r.Err = fmt.Sprintf("%q: %v", line, err)
		}
		return r
	})}
}

// report waits for the child to have done what it was told, and checks that its clock was as meant.
func (c *clockChild) report(t testing.TB, ahead time.Duration) {
	t.Helper()
	r := within(t, c.out, 3*promptly, "the child's report")
	require.Empty(t, r.Err, "the process whose clock is ahead by %v", ahead)
	require.Less(t, r.Longest, promptly, "one waited for long")
	require.WithinDuration(t, time.Now().Add(ahead), r.Now, time.Minute, "its clock was not shifted")
}

var clockShifts = []time.Duration{-10 * time.Minute, 0, 10 * time.Minute}

func TestC56_ProcessesWhoseClocksAreFarApartExcludeEachOther(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		tab.mustInsert(testCtx(t), tab.bare, 1)
		order := clockOrder{DSN: view.DSN(), Key: dbtest.Key(t), TTL: 5 * time.Second, Turns: 100}
		var children []*clockChild
		for _, ahead := range clockShifts {
			children = append(children, startClock(t, order, ahead))
		}
		for i, ahead := range clockShifts {
			children[i].report(t, ahead)
		}
	})
}

func TestC56_ALeaseEndsByTheClockOfTheDatabase(t *testing.T) {
	const ttl = 3 * time.Second
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view := s.CreateDatabase(t)
		rows := newLeaseTable(t, view)
		for name, ahead := range map[string]time.Duration{"the holder's clock is ahead": 10 * time.Minute, "the waiter's clock is ahead": -10 * time.Minute} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				order := clockOrder{DSN: view.DSN(), Key: dbtest.Key(t), TTL: ttl}
				holder := startClock(t, order, ahead)
				holder.report(t, ahead)
				waiter := startClock(t, order, -ahead)
				select {
				case r := <-waiter.out:
					t.Fatalf("two hold the lease: %+v", r)
				case <-time.After(ttl * 5 / 4): // the holder renews it
				}
				require.NoError(t, holder.cmd.Process.Kill())
				_ = holder.cmd.Wait()
				killed := time.Now()
				row, _ := rows.look(order.Key)
				waiter.report(t, -ahead)
				took := time.Since(killed)
				require.Greater(t, took, row.left, "before it expired")
				require.Less(t, took, ttl+promptly, "as late as its own clock says")
			})
		}
	})
}
