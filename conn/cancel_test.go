package conn_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// phase is when, seen from the call, its context is cancelled.
type phase string

const (
	before phase = "before"
	during phase = "during"
	after  phase = "after"
)

// outcome is what a program can see of a cancelled call.
type outcome struct {
	Errors []string // of the call and of what came after it
	Class  []string // what errors.Is says of each
	// The pool when all is over, before it is used again and after.
	Left, Later string
	// Reused: the next statement runs on the same session as the one before.
	Reused bool
}

// dying is the difference that is meant: pgx's connection is not a Validator,
// so database/sql keeps one that is dead, or in a transaction, as idle until the
// next use, when its ResetSession refuses it. lockdb claims Validator, for it
// must know at return what a connection holds, and so it is discarded at once.
func dying(s *dbtest.Server, c cancelCase, bare outcome) outcome {
	if !s.IsMySQL() && !bare.Reused && !c.again {
		bare.Left = "open 0, in use 0, idle 0"
	}
	return bare
}

func TestACancelledContextDoesToACallWhatItDoesOnTheBareDriver(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for _, c := range cancelCases(s) {
			for _, p := range []phase{before, during, after} {
				t.Run(c.name+"/"+string(p), func(t *testing.T) {
					want := dying(s, c, cancelled(t, s, c, p, nil))
					require.Equal(t, want, cancelled(t, s, c, p, func(*sql.DB) {}), "lockdb")
					require.Equal(t, want, cancelled(t, s, c, p, func(db *sql.DB) {
						lk, err := lockctx.Acquire(context.Background(), db, dbtest.Key(t))
						require.NoError(t, err)
						t.Cleanup(func() { require.NoError(t, lk.Close()) })
					}), "lockdb, with a lock held elsewhere")
				})
			}
		}
	})
}

// cancelled runs a case, on the bare driver if prepare is nil. It runs it again where
// this process or the server stood still: pgx pings a connection that was idle for a
// second, and that is cancelled then.
func cancelled(t *testing.T, s *dbtest.Server, c cancelCase, p phase, prepare func(*sql.DB)) outcome {
	t.Helper()
	for tries := 1; ; tries++ {
		stalls := stallMeter()
		out, idle := cancelledOnce(t, s, c, p, prepare)
		if stalls() < 300*time.Millisecond && idle < 800*time.Millisecond || tries == 5 {
			return out
		}
	}
}

// cancelledOnce also tells how long the connection was idle before the call, at most.
func cancelledOnce(t *testing.T, s *dbtest.Server, c cancelCase, p phase, prepare func(*sql.DB)) (out outcome, idleFor time.Duration) {
	t.Helper()
	tp := newTap(t, s)
	db := tp.open(t, s, prepare != nil)
	if prepare != nil {
		prepare(db)
	}
	used := time.Now()
	id := sessionID(t, s, db)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	idle := func() {
		require.Eventually(t, func() bool { return db.Stats().InUse == c.holds }, 10*time.Second, time.Millisecond)
	}
	x := &cancelRun{ctx: ctx, db: db, t: t}
	x.at = func() {
		idleFor = time.Since(used)
		switch p {
		case before:
			cancel()
			if c.watched {
				idle()
			}
		case during:
			tp.relay.Cut()
			tp.whenAsked(cancel)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.call(x)
	}()
	if p == during {
		select {
		case <-done:
		case <-ctx.Done():
			returned := func() bool {
				select {
				case <-done:
					return true
				case <-time.After(3 * time.Millisecond):
					return false
				}
			}
			for looks := 0; looks < 100 && !returned(); looks++ { // in vain if such a call does not look at the context
			}
		}
		tp.relay.Heal()
	}
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the call does not return")
	}
	cancel()
	if x.use != nil {
		if p == after || c.watched {
			idle()
		}
		x.use()
	}
	for _, f := range slices.Backward(x.cleanup) {
		f()
	}
	require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, 10*time.Second, time.Millisecond)

	for _, err := range x.errs {
		out.Errors = append(out.Errors, plainText(err))
		out.Class = append(out.Class, class(err))
	}
	out.Left = stats(db)
	out.Reused = sessionID(t, s, db) == id
	out.Later = stats(db)
	return out, idleFor
}

func stats(db *sql.DB) string {
	s := db.Stats()
	return fmt.Sprintf("open %d, in use %d, idle %d", s.OpenConnections, s.InUse, s.Idle)
}

// sessionID is the server's id of the session that a statement runs on.
func sessionID(t testing.TB, s *dbtest.Server, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
},
) (id int64) {
	t.Helper()
	query := "SELECT CONNECTION_ID()"
	if !s.IsMySQL() {
		query = "SELECT pg_backend_pid()"
	}
	require.NoError(t, db.QueryRowContext(testCtx(t), query).Scan(&id))
	return id
}

var address = regexp.MustCompile(`127\.0\.0\.1:\d+`)

func plainText(err error) string {
	if err == nil {
		return ""
	}
	return address.ReplaceAllString(err.Error(), "ADDRESS")
}

func class(err error) (is string) {
	for _, target := range []error{
		context.Canceled, context.DeadlineExceeded, driver.ErrBadConn, mysql.ErrInvalidConn,
		sql.ErrTxDone, sql.ErrConnDone, sql.ErrNoRows,
	} {
		if errors.Is(err, target) {
			is += target.Error() + "; "
		}
	}
	return is
}
