package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/lockdb/lockdb/lockctx"
)

// sameWithLockdb does the work of stuckLock through lockdb. The other client
// still uses the bare driver: the lock is the server's own.
func sameWithLockdb(ctx context.Context, s server, p *page) error {
	db, err := sql.Open("lockdb", s.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	second, err := s.open()
	if err != nil {
		return err
	}
	defer second.Close()
	client, err := second.Conn(ctx) // one connection: to release what it takes
	if err != nil {
		return err
	}
	defer client.Close()

	lk, err := lockctx.Acquire(ctx, db, s.key, s.options...)
	if err != nil {
		return err
	}
	defer lk.Close()
	session, err := s.where(lk.Context(), db)
	if err != nil {
		return err
	}
	p.on(session, "lk, err := lockctx.Acquire(ctx, db, key)", "we have the lock")

	tx, err := db.BeginTx(lk.Context(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "UPDATE "+s.table+" SET n = n + 1 WHERE id = 1"); err != nil {
		return err
	}
	worked, err := s.where(ctx, tx)
	if err != nil {
		return err
	}
	p.on(worked, "tx, err := db.BeginTx(lk.Context(), nil)", "what runs under it runs there, too")
	if worked != session {
		return fmt.Errorf("the transaction did not run on the lock's connection, %d", session)
	}
	if _, err := s.step(ctx, client, p, s.lock, s.no, "another client is refused, rightly"); err != nil {
		return err
	}

	if err := tx.Commit(); err != nil {
		return err
	}
	if err := lk.Close(); err != nil {
		return err
	}
	p.on(session, "tx.Commit(), lk.Close()", "committed, then released")
	if _, err := s.step(ctx, client, p, s.lock, s.yes, "the other client has it now"); err != nil {
		return err
	}
	_, err = s.step(ctx, client, p, s.unlock, s.yes, "and releases it")
	return err
}
