package bench

import (
	"context"
	"sync"
	"testing"
)

const (
	crowd = 64 // goroutines
	turns = 4  // of each in a round
)

// BenchmarkContended measures a crowd of one process that wants the same lock all
// the time. By hand each waits at the server on a connection of its own.
func BenchmarkContended(b *testing.B) {
	onServers(b, func(b *testing.B, s server) {
		ctx := context.Background()
		hand := make([]func() error, crowd)
		bare := s.Open(b)
		for i := range hand {
			c, err := bare.Conn(ctx)
			must(b, err)
			b.Cleanup(func() { _ = c.Close() })
			hand[i] = byHand(ctx, c, s.wait, s.unlock)
		}
		db := s.open(b)
		ours := make([]func() error, crowd)
		for i := range ours {
			ours[i] = acquireClose(ctx, db, s.key)
		}
		compare(b, 1,
			contender{"hand", func() error { return together(hand) }},
			contender{"lockdb", func() error { return together(ours) }},
		)
	})
}

// together has each of the crowd take its turns.
func together(crowd []func() error) error {
	errs := make([]error, len(crowd))
	var wg sync.WaitGroup
	for i, turn := range crowd {
		wg.Go(func() {
			for range turns {
				if errs[i] = turn(); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
