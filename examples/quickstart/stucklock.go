package main

import (
	"context"
	"errors"
)

// stuckLock shows what happens when a lock of the server's, which belongs to one
// connection, is taken and released through a pool, which gives out any.
func stuckLock(ctx context.Context, s server, p *page) error {
	db, err := s.open()
	if err != nil {
		return err
	}
	defer db.Close() // which ends the connection, and the lock with it
	second, err := s.open()
	if err != nil {
		return err
	}
	defer second.Close()

	locked, err := s.step(ctx, db, p, s.lock, s.yes, "we have the lock")
	if err != nil {
		return err
	}
	// Another goroutine takes a connection from the pool: the one that is free.
	other, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer other.Close()
	lent, err := s.where(ctx, other)
	if err != nil {
		return err
	}
	p.on(lent, "SELECT …", "the pool lends it to another goroutine")
	asked, err := s.step(ctx, db, p, s.unlock, s.no, "released elsewhere: no effect, no error")
	if err != nil {
		return err
	}
	if lent != locked || asked == locked {
		return errors.New("the pool did not mix up the connections")
	}
	if err := other.Close(); err != nil {
		return err
	}
	_, err = s.step(ctx, second, p, s.lock, s.no, "another client is refused: the lock is stuck")
	return err
}
