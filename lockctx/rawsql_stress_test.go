package lockctx_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// tenancy is the time in which a goroutine was certainly inside a lock: its release
// was answered with yes, so that no KILL had ended it before.
type tenancy struct{ from, to time.Time }

// rawStress takes and releases locks by text while sessions are killed and contexts end.
type rawStress struct {
	t     *testing.T
	view  *dbtest.Server
	db    *sql.DB
	keys  []string
	until time.Time

	all       atomic.Int64
	mu        sync.Mutex // guards what follows
	tenancies map[string][]tenancy
}

func (st *rawStress) explain() { logServer(st.t, st.view, st.keys...) }

// turn is one take, and its release in every case.
func (st *rawStress) turn(r *rand.Rand) {
	key := st.keys[r.IntN(len(st.keys))]
	form := rawSQLFor(st.t, st.view, key)
	ask := func(ctx context.Context, query string) (bool, error) {
		var got sql.NullBool
		err := st.db.QueryRowContext(ctx, query).Scan(&got)
		return got.Bool, err
	}
	ctx, cancel := context.WithCancel(testCtx(st.t))
	defer cancel()
	if r.IntN(3) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(5000))*time.Microsecond)
		defer cancel()
	}
	st.all.Add(1)
	query := form.take
	if r.IntN(40) == 0 && st.view.IsMySQL() { // a blocking one of PostgreSQL would wait for ever
		query = form.block
	}
	took, err := ask(ctx, query)
	from := time.Now()
	if err == nil && took {
		time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
	}
	if r.IntN(4) == 0 { // again, on the same session
		if again, _ := ask(testCtx(st.t), form.take); again {
			_, _ = ask(testCtx(st.t), form.release)
		}
	}
	to := time.Now()
	released, rerr := ask(ctx, form.release)
	if err == nil && took && rerr == nil && released {
		st.mu.Lock()
		st.tenancies[key] = append(st.tenancies[key], tenancy{from, to})
		st.mu.Unlock()
	}
	for tries := 0; ; tries++ { // until the server says that there is nothing
		released, err := ask(testCtx(st.t), form.release)
		if err == nil && !released {
			return
		}
		if tries > 50 {
			st.t.Errorf("release of %s: %v, %v", key, released, err)
			return
		}
	}
}

func (st *rawStress) kill(r *rand.Rand, killer *sql.Conn, spared map[int64]bool) {
	for time.Now().Before(st.until) {
		time.Sleep(time.Duration(5+r.IntN(20)) * time.Millisecond)
		sessions := slices.DeleteFunc(st.view.Sessions(st.t), func(s dbtest.Session) bool { return spared[s.ID] })
		if len(sessions) == 0 {
			continue
		}
		text := "KILL %d"
		if !st.view.IsMySQL() {
			text = "SELECT pg_terminate_backend(%d)"
		}
		// It may have ended meanwhile.
		_, _ = killer.ExecContext(testCtx(st.t), fmt.Sprintf(text, sessions[r.IntN(len(sessions))].ID))
	}
}

func TestStressOfRawLocksLeavesNoneAndLetsNeverTwoIn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, seed := s.CreateDatabase(t), rand.Uint64()
		t.Logf("seed %d", seed)
		out, killer := newOutsider(t, view), newOutsider(t, view)
		spared := map[int64]bool{askID(testCtx(t), t, view, out.conn): true, askID(testCtx(t), t, view, killer.conn): true}
		st := &rawStress{t: t, view: view, db: open(t, view), until: time.Now().Add(min(stressTime(t), 3*time.Second)), tenancies: make(map[string][]tenancy)}
		st.db.SetMaxOpenConns(4)
		base := dbtest.Key(t)
		for i := range 6 {
			st.keys = append(st.keys, fmt.Sprintf("%s:%d", base, i))
		}
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				for r := rand.New(rand.NewPCG(seed, uint64(i))); time.Now().Before(st.until); {
					st.turn(r)
				}
			})
		}
		st.kill(rand.New(rand.NewPCG(seed, 99)), killer.conn, spared)
		within(t, async(func() bool { all.Wait(); return true }), 3*promptly, "the goroutines' end", st.explain)

		turns := 0
		for _, key := range st.keys {
			out.free(key, promptly)
			in := st.tenancies[key]
			turns += len(in)
			slices.SortFunc(in, func(a, b tenancy) int { return cmp.Compare(a.from.UnixNano(), b.from.UnixNano()) })
			for i := range in[:max(0, len(in)-1)] {
				require.False(t, in[i+1].from.Before(in[i].to), "two were inside %s", key)
			}
		}
		require.Positive(t, turns)
		t.Logf("%d tenancies in %d turns", turns, st.all.Load())
		require.Empty(t, heldBy(t, st.db))
		require.NoError(t, st.db.Close())
		becomes(t, func() bool { return len(view.Sessions(t)) == len(spared) }, "sessions were left", st.explain)
	})
}
