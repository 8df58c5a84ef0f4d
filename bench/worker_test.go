package bench

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// workerEnv in its environment, with an employment, makes this program a worker: a
// process that does the orders that it reads from its standard input, one after the
// other, until that ends.
const workerEnv = "LOCKDB_BENCH_WORKER"

func init() {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it writes of connections that are killed
	if text := os.Getenv(workerEnv); text != "" {
		var e employment
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			panic(err)
		}
		e.work()
		os.Exit(0)
	}
}

type employment struct {
	DSN, Driver string // Driver is the bare one
	Key         string
}

// order is what a worker can be told to do.
type order struct {
	Job        string        // "crowd", "turns" or "hold"
	Way        string        // "hand", "literals", "lockdb", "multiplexed" or "lease"
	TTL        time.Duration // of leases
	Goroutines int
	For        time.Duration // "crowd": how long; "turns": how long to keep it each time
	Turns      int
}

type answer struct {
	Err     string
	Crowd   tally
	Tenures []tenure
}

// tenure is from the grant to the moment at which the release began.
type tenure struct{ Began, Ends time.Time }

func (o order) options() []lockctx.Option {
	switch o.Way {
	case "multiplexed":
		return []lockctx.Option{lockctx.Multiplexed()}
	case "lease":
		return []lockctx.Option{lockctx.Lease(o.TTL)}
	}
	return nil
}

func (e employment) work() {
	bare, err := sql.Open(e.Driver, e.DSN)
	if err != nil {
		panic(err)
	}
	bare.SetMaxIdleConns(100)
	c, err := driver.OpenConnector(e.DSN)
	if err != nil {
		panic(err)
	}
	db := sql.OpenDB(c)
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			return
		}
		a, err := e.do(o, bare, db)
		if err != nil {
			a.Err = err.Error()
		}
		_ = out.Encode(a)
	}
}

func (e employment) do(o order, bare, db *sql.DB) (a answer, err error) {
	ctx := context.Background()
	key := e.Key + ":" + o.Way
	switch o.Job {
	case "hold": // until this process is killed
		_, err = lockctx.Acquire(ctx, db, key, o.options()...)
	case "turns":
		for range o.Turns {
			lk, err := lockctx.Acquire(ctx, db, key, o.options()...)
			if err != nil {
				return a, err
			}
			t := tenure{Began: time.Now()}
			time.Sleep(o.For)
			t.Ends = time.Now()
			if err := lk.Close(); err != nil {
				return a, err
			}
			a.Tenures = append(a.Tenures, t)
		}
	case "crowd":
		turns := make([]turn, o.Goroutines)
		for i := range turns {
			if !byHandIs(o.Way) {
				turns[i] = turnOf(ctx, db, key, o.options()...)
				continue
			}
			c, err := bare.Conn(ctx)
			if err != nil {
				return a, err
			}
			defer c.Close()
			turns[i] = turnByHand(ctx, c, newHand(e.Driver == "mysql", key), o.Way)
		}
		a.Crowd, err = takeTurns(turns, o.For)
	default:
		err = fmt.Errorf("no job %q", o.Job)
	}
	return a, err
}

// worker is a process as the benchmark has it.
type worker struct {
	b   *testing.B
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
}

// hire starts a process; it is killed when the benchmark ends.
func hire(b *testing.B, view *dbtest.Server, key string) *worker {
	b.Helper()
	self, err := os.Executable()
	must(b, err)
	e, err := json.Marshal(employment{DSN: view.DSN(), Driver: view.Driver(), Key: key})
	must(b, err)
	w := &worker{b: b, cmd: exec.Command(self)}
	w.cmd.Env = append(os.Environ(), workerEnv+"="+string(e))
	w.cmd.Stderr = os.Stderr
	in, err := w.cmd.StdinPipe()
	must(b, err)
	out, err := w.cmd.StdoutPipe()
	must(b, err)
	w.in, w.out = json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))
	must(b, w.cmd.Start())
	b.Cleanup(w.kill)
	return w
}

func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
}

// begin gives the order and does not wait for the answer.
func (w *worker) begin(o order) {
	w.b.Helper()
	must(w.b, w.in.Encode(o))
}

func (w *worker) answer() answer {
	w.b.Helper()
	var a answer
	must(w.b, w.out.Decode(&a))
	if a.Err != "" {
		must(w.b, errors.New(a.Err))
	}
	return a
}

// do gives the order to all, at once, and waits for their answers.
func do(workers []*worker, o order) []answer {
	for _, w := range workers {
		w.begin(o)
	}
	answers := make([]answer, len(workers))
	for i, w := range workers {
		answers[i] = w.answer()
	}
	return answers
}
