package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
)

// journal is the table that the brokers write to: a row for each message, with
// the token of the lease under which it was written. The SQL is such that one text
// does for all servers.
type journal struct{ table string }

func (j journal) create(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+j.table+
		" (id SERIAL PRIMARY KEY, n BIGINT NOT NULL, token BIGINT NOT NULL, pid BIGINT NOT NULL)")
	return err
}

// add writes the next message. n is not a key: a broker that was stopped in the
// midst of a transaction may have written the same n, and the next one would wait
// for the end of that transaction to learn that it will not be committed.
func (j journal) add(ctx context.Context, tx *sql.Tx, token int64) (n int64, err error) {
	if err := tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(n), 0) + 1 FROM "+j.table).Scan(&n); err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (n, token, pid) VALUES (%d, %d, %d)", j.table, n, token, os.Getpid()))
	return n, err
}

// tenure is what was written under one token.
type tenure struct {
	token, pid  int64
	first, last int64
}

// tenures reads the journal in the order in which it was written, and fails if a
// token goes back in it, or a message is missing or there twice.
func (j journal) tenures(ctx context.Context, db *sql.DB) (all []tenure, err error) {
	rows, err := db.QueryContext(ctx, "SELECT n, token, pid FROM "+j.table+" ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var prev tenure
	for rows.Next() {
		var n int64
		var t tenure
		if err := rows.Scan(&n, &t.token, &t.pid); err != nil {
			return nil, err
		}
		switch {
		case n != prev.last+1:
			return nil, fmt.Errorf("message %d comes after message %d", n, prev.last)
		case t.token < prev.token:
			return nil, fmt.Errorf("message %d has token %d, and an earlier one %d", n, t.token, prev.token)
		case t.token > prev.token:
			t.first = n
			all = append(all, t)
		}
		all[len(all)-1].last = n
		prev = tenure{token: t.token, last: n}
	}
	return all, rows.Err()
}
