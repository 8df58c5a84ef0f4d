package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/lockdb/lockdb/lockctx"
)

const (
	goroutines = 20
	turns      = 5
	total      = goroutines * turns
)

// counter reads a number, adds 1 and writes it back, from many goroutines:
// first without a lock, then under one.
func counter(ctx context.Context, s server, p *page) error {
	db, err := sql.Open("lockdb", s.dsn)
	if err != nil {
		return err
	}
	defer db.Close()

	// One connection is enough for updates to get lost, and the embedded server
	// does not stand more.
	db.SetMaxOpenConns(1)
	n, err := s.count(ctx, db, func() error { return s.addOne(ctx, db) })
	if err != nil {
		return err
	}
	p.line("without a lock", fmt.Sprintf("%3d of %d", n, total), fmt.Sprintf("%d updates lost", total-n))
	if n >= total {
		return errors.New("without a lock no update was lost")
	}

	n, err = s.count(ctx, db, func() error {
		return lockctx.InTx(ctx, db, s.key, nil, func(ctx context.Context, tx *sql.Tx) error {
			return s.addOne(ctx, tx)
		}, s.options...)
	})
	if err != nil {
		return err
	}
	p.line("in lockctx.InTx", fmt.Sprintf("%3d of %d", n, total), fmt.Sprintf("%d updates lost", total-n))
	if n != total {
		return fmt.Errorf("under the lock %d updates were lost", total-n)
	}
	return nil
}

// count runs add on all goroutines, and reads what came of it.
func (s server) count(ctx context.Context, db *sql.DB, add func() error) (n int, err error) {
	if _, err := db.ExecContext(ctx, "UPDATE "+s.table+" SET n = 0 WHERE id = 1"); err != nil {
		return 0, err
	}
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for range turns {
				if errs[i] = add(); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	err = db.QueryRowContext(ctx, "SELECT n FROM "+s.table+" WHERE id = 1").Scan(&n)
	return n, err
}

// addOne is the bug in many programs: between the read and the write somebody
// else may write.
func (s server) addOne(ctx context.Context, q interface {
	querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
},
) error {
	var n int
	if err := q.QueryRowContext(ctx, "SELECT n FROM "+s.table+" WHERE id = 1").Scan(&n); err != nil {
		return err
	}
	_, err := q.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET n = %d WHERE id = 1", s.table, n+1))
	return err
}
