package bench

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
)

// byHand takes and releases a lock with two statements on a connection kept for it.
func byHand(ctx context.Context, c *sql.Conn, lock, unlock statement) func() error {
	return func() error {
		if err := yes(ctx, c, lock); err != nil {
			return err
		}
		return yes(ctx, c, unlock)
	}
}

// turnByHand is byHand for one who waits: with placeholders, or with literals.
func turnByHand(ctx context.Context, c *sql.Conn, h hand, way string) turn {
	wait, unlock := h.waitArgs, h.unlockArg
	if way == "literals" {
		wait, unlock = h.wait, h.unlock
	}
	return turn{
		take: func() error { return yes(ctx, c, wait) },
		free: func() error { return yes(ctx, c, unlock) },
	}
}

// yes runs a lock statement, which must answer yes.
func yes(ctx context.Context, c *sql.Conn, s statement) error {
	var ok bool
	if err := c.QueryRowContext(ctx, s.query, s.args...).Scan(&ok); err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s: no", s.query)
	}
	return nil
}

// numbers makes a table with a row for each contender, and returns the statements
// that add 1 to them.
func (s server) numbers(b *testing.B, n int) (updates []string) {
	b.Helper()
	db := s.Open(b)
	defer db.Close()
	exec := func(query string) {
		_, err := db.Exec(query)
		must(b, err)
	}
	exec("CREATE TABLE numbers (id int PRIMARY KEY, n int NOT NULL)")
	for id := range n {
		exec(fmt.Sprintf("INSERT INTO numbers VALUES (%d, 0)", id))
		updates = append(updates, fmt.Sprintf("UPDATE numbers SET n = n + 1 WHERE id = %d", id))
	}
	return updates
}
