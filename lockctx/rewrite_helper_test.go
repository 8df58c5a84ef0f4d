package lockctx_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"strings"
	"sync"
	"testing"

	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// rewriter stands between lockdb and a real server, records the queries that lockdb sends and has
// the server answer other ones: so it can pass for a server that cannot run here.
type rewriter struct {
	sqlmw.NullInterceptor

	mu       sync.Mutex // guards what follows
	rewrite  func(query string) (string, error)
	queries  []string // all that was sent: queries, statements, and "ping"
	connects int
}

// openAs opens the server so that it answers as rewrite has it.
func openAs(t testing.TB, s *dbtest.Server, rewrite func(query string) (string, error), opts ...driver.Option) (*sql.DB, *rewriter) {
	t.Helper()
	r := &rewriter{rewrite: rewrite}
	return open(t, s, append(opts, driver.WithInterceptor(r))...), r
}

// replacing rewrites by pairs of old and new.
func replacing(oldnew ...string) func(string) (string, error) {
	r := strings.NewReplacer(oldnew...)
	return func(query string) (string, error) { return r.Replace(query), nil }
}

func asItIs(query string) (string, error) { return query, nil }

func (r *rewriter) send(query string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries = append(r.queries, query)
	return r.rewrite(query)
}

// become changes the rewriting.
func (r *rewriter) become(rewrite func(query string) (string, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rewrite = rewrite
}

// sent are the queries since the last call.
func (r *rewriter) sent() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.queries
	r.queries = nil
	return sent
}

func (r *rewriter) dialled() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.connects
}

func (r *rewriter) ConnectorConnect(ctx context.Context, c sqldriver.Connector) (sqldriver.Conn, error) {
	r.mu.Lock()
	r.connects++
	r.mu.Unlock()
	return c.Connect(ctx)
}

func (r *rewriter) ConnPing(ctx context.Context, c sqldriver.Pinger) error {
	if _, err := r.send("ping"); err != nil {
		return err
	}
	return c.Ping(ctx)
}

func (r *rewriter) ConnExecContext(ctx context.Context, c sqldriver.ExecerContext, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	query, err := r.send(query)
	if err != nil {
		return nil, err
	}
	return c.ExecContext(ctx, query, args)
}

func (r *rewriter) ConnQueryContext(ctx context.Context, c sqldriver.QueryerContext, query string, args []sqldriver.NamedValue) (context.Context, sqldriver.Rows, error) {
	query, err := r.send(query)
	if err != nil {
		return ctx, nil, err
	}
	rows, err := c.QueryContext(ctx, query, args)
	return ctx, rows, err
}

// requireUnsupported checks that no lock is to be had in any way, and that the error says all of the words.
func requireUnsupported(t testing.TB, db *sql.DB, words ...string) {
	t.Helper()
	key := dbtest.Key(t)
	for name, get := range map[string]acquirer{
		"Acquire":    lockctx.Acquire,
		"TryAcquire": lockctx.TryAcquire,
		"AcquireAll": func(ctx context.Context, db *sql.DB, key string, opts ...lockctx.Option) (*lockctx.Lock, error) {
			return lockctx.AcquireAll(ctx, db, []string{key, key + ":2"}, opts...)
		},
	} {
		lk, err := get(testCtx(t), db, key)
		require.ErrorIs(t, err, lockctx.ErrUnsupported, name)
		require.Nil(t, lk)
		for _, word := range words {
			require.ErrorContains(t, err, word, name)
		}
	}
}
