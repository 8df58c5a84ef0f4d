package bench

import (
	"context"
	"database/sql"
	"testing"

	"github.com/lockdb/lockdb/lockctx"
)

// BenchmarkInTx measures a transaction with one update: without a lock, under one
// that is taken by hand on the same connection, and in lockctx.InTx. Round trips
// show where the network takes its time, which a relay's delay stands for.
func BenchmarkInTx(b *testing.B) {
	onServers(b, func(b *testing.B, s server) {
		s.Server = s.CreateDatabase(b)
		updates := s.numbers(b, 3)
		s.overNetworks(b, func(b *testing.B, s server) { benchmarkInTx(b, s, updates) })
	})
}

func benchmarkInTx(b *testing.B, s server, updates []string) {
	ctx := context.Background()
	plain, hand, db := s.bare(b), s.conn(b), s.open(b)
	compare(b, 1,
		contender{"plain", func() error { return inTx(ctx, plain, updates[0]) }},
		contender{"hand", func() error {
			if err := yes(ctx, hand, s.try); err != nil {
				return err
			}
			if err := inTx(ctx, hand, updates[1]); err != nil {
				return err
			}
			return yes(ctx, hand, s.unlock)
		}},
		contender{"lockdb", func() error {
			return lockctx.InTx(ctx, db, s.key, nil, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, updates[2])
				return err
			})
		}},
	)
}

func inTx(ctx context.Context, db interface {
	BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
}, update string,
) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, update); err != nil {
		return err
	}
	return tx.Commit()
}
