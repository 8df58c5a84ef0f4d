package bench

import (
	"context"
	"testing"
	"time"

	"github.com/lockdb/lockdb/lockctx"
)

// BenchmarkLeaseAcquireClose measures a lease that nobody else wants against two
// writes of a row, each committed by itself: what an acquire and a release cannot
// do without. The goal is 1.05 times the writes.
func BenchmarkLeaseAcquireClose(b *testing.B) {
	onCommits(b, func(b *testing.B, s server) {
		s.Server = s.CreateDatabase(b)
		updates := s.numbers(b, 1)
		s.overNetworks(b, func(b *testing.B, s server) {
			ctx := context.Background()
			c := s.conn(b)
			write := func() error {
				_, err := c.ExecContext(ctx, updates[0])
				return err
			}
			lease := acquireClose(ctx, s.open(b), s.key, lockctx.Lease(time.Minute))
			must(b, lease()) // makes the table
			compare(b, 1,
				contender{"writes", func() error {
					if err := write(); err != nil {
						return err
					}
					return write()
				}},
				contender{"lease", lease},
			)
		})
	})
}

// BenchmarkFencedCommit measures a transaction with one update: plain, and begun
// under the context of a lease, which it looks at before it commits.
func BenchmarkFencedCommit(b *testing.B) {
	onCommits(b, func(b *testing.B, s server) {
		s.Server = s.CreateDatabase(b)
		updates := s.numbers(b, 2)
		s.overNetworks(b, func(b *testing.B, s server) {
			plain, db := s.bare(b), s.open(b)
			lk, err := lockctx.Acquire(context.Background(), db, s.key, lockctx.Lease(time.Minute))
			must(b, err)
			b.Cleanup(func() { _ = lk.Close() })
			compare(b, 1,
				contender{"plain", func() error { return inTx(context.Background(), plain, updates[0]) }},
				contender{"fenced", func() error { return inTx(lk.Context(), db, updates[1]) }},
			)
		})
	})
}
