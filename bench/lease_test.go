package bench

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/lockdb/lockdb/lockctx"
)

// BenchmarkLeaseAcquireClose measures a lease that nobody else wants against two
// writes of a row, each committed by itself: what an acquire and a release cannot
// do without. The goal is 1.05 times the writes. By hand it is the statements that
// one would write for a lease; without what wakes those who wait, and with it.
func BenchmarkLeaseAcquireClose(b *testing.B) {
	onCommits(b, func(b *testing.B, s server) {
		s.Server = s.CreateDatabase(b)
		updates := s.numbers(b, 1)
		claim, release := s.leaseByHand(b)
		wakingClaim, wakingRelease := s.waking(claim, release)
		s.overNetworks(b, func(b *testing.B, s server) {
			ctx := context.Background()
			c := s.conn(b)
			exec := func(statements ...string) error {
				for _, text := range statements {
					if _, err := c.ExecContext(ctx, text); err != nil {
						return err
					}
				}
				return nil
			}
			lease := acquireClose(ctx, s.open(b), s.key, lockctx.Lease(time.Minute))
			must(b, lease()) // makes the table
			compare(b, 1,
				contender{"writes", func() error { return exec(updates[0], updates[0]) }},
				contender{"lease", lease},
				contender{"hand", func() error { return exec(claim, release) }},
				contender{"waking", func() error { return exec(wakingClaim, wakingRelease) }},
			)
		})
	})
}

// leaseByHand makes a table of leases, and returns the statements that take and
// release one.
func (s server) leaseByHand(b *testing.B) (claim, release string) {
	b.Helper()
	db := s.Open(b)
	defer db.Close()
	claim = `INSERT INTO hand VALUES ('k', 'me', 1, now() + interval '1 minute') ON CONFLICT (k) DO UPDATE
		SET token = hand.token + 1, owner = EXCLUDED.owner, expires = EXCLUDED.expires WHERE hand.expires <= now() RETURNING token`
	create, kind := "CREATE TABLE hand (k varchar(64) PRIMARY KEY, owner varchar(64) NOT NULL, token bigint NOT NULL, expires %s NOT NULL)", "timestamptz"
	if s.IsMySQL() {
		kind = "datetime(6)"
		claim = `INSERT INTO hand VALUES ('k', 'me', LAST_INSERT_ID(1), UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE) ON DUPLICATE KEY UPDATE
			token = IF(expires <= UTC_TIMESTAMP(6), LAST_INSERT_ID(token + 1), token), owner = IF(expires <= UTC_TIMESTAMP(6), 'me', owner),
			expires = IF(expires <= UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE, expires)`
	}
	_, err := db.Exec(fmt.Sprintf(create, kind))
	must(b, err)
	return claim, "UPDATE hand SET expires = '1971-01-01' WHERE k = 'k' AND owner = 'me'"
}

// waking has the statements take and release a session lock, too, for which others
// would wait.
func (s server) waking(claim, release string) (_, _ string) {
	values := regexp.MustCompile(`(?s)VALUES \((.*?)\)( ON )`)
	if s.IsMySQL() {
		return values.ReplaceAllString(claim, "SELECT $1 FROM DUAL WHERE GET_LOCK('hand', 0) = 1$2"), release + " AND RELEASE_LOCK('hand') = 1"
	}
	return values.ReplaceAllString(claim, "SELECT $1 WHERE pg_try_advisory_lock(42)$2"), release + " RETURNING pg_advisory_unlock(42)"
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
