package bench

import (
	"context"
	"database/sql"
	"testing"

	"github.com/lockdb/lockdb/lockctx"
)

// BenchmarkAcquireClose measures a lock that nobody else wants against the least
// that it can cost, two literal statements on a connection kept for it, and
// against what most people write. The goals are 1.05 times the literals, and half
// of the placeholders.
func BenchmarkAcquireClose(b *testing.B) {
	onServers(b, func(b *testing.B, s server) {
		s.overNetworks(b, func(b *testing.B, s server) {
			underContexts(b, func(b *testing.B, ctx context.Context) {
				ways := []contender{
					{"literals", byHand(ctx, s.conn(b), s.try, s.unlock)},
					{"lockdb", acquireClose(ctx, s.open(b), s.key)},
					{"multiplexed", acquireClose(ctx, s.open(b), s.key+":mux", lockctx.Multiplexed())},
				}
				if s.IsMySQL() {
					ways = append(ways, contender{"placeholders", byHand(ctx, s.conn(b), s.tryArgs, s.unlockArg)})
				}
				compare(b, 1, ways...)
			})
		})
	})
}

// BenchmarkAcquireCloseOwnCost is the client's part of it: the server costs nothing.
// (There is no socket either, without which lockdb can do a little less cheaply.)
func BenchmarkAcquireCloseOwnCost(b *testing.B) {
	underContexts(b, func(b *testing.B, ctx context.Context) {
		bare := sql.OpenDB(new(noop))
		c, err := bare.Conn(ctx)
		must(b, err)
		b.Cleanup(func() { _, _ = c.Close(), bare.Close() })
		compare(b, 100,
			contender{"literals", byHand(ctx, c, statement{query: "SELECT GET_LOCK('k', 0)"}, statement{query: "SELECT RELEASE_LOCK('k')"})},
			contender{"lockdb", acquireClose(ctx, openNoop(b), "k")},
			contender{"multiplexed", acquireClose(ctx, openNoop(b), "k", lockctx.Multiplexed())},
		)
	})
}

// underContexts runs fn under a context that never ends, and under one that may.
func underContexts(b *testing.B, fn func(b *testing.B, ctx context.Context)) {
	b.Run("ctx=plain", func(b *testing.B) { fn(b, context.Background()) })
	b.Run("ctx=cancellable", func(b *testing.B) { fn(b, b.Context()) })
}

func acquireClose(ctx context.Context, db *sql.DB, key string, opts ...lockctx.Option) func() error {
	return func() error {
		lk, err := lockctx.Acquire(ctx, db, key, opts...)
		if err != nil {
			return err
		}
		return lk.Close()
	}
}

// turnOf is acquireClose for one who waits.
func turnOf(ctx context.Context, db *sql.DB, key string, opts ...lockctx.Option) turn {
	var lk *lockctx.Lock
	return turn{
		take: func() (err error) {
			lk, err = lockctx.Acquire(ctx, db, key, opts...)
			return err
		},
		free: func() error { return lk.Close() },
	}
}
