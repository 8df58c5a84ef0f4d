package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/lockctx"
)

// broker is one of the processes.
type broker struct {
	config
	out     io.Writer
	db      *sql.DB
	journal journal
	token   atomic.Int64 // while it leads
}

// runBroker is one broker, until ctx ends: then it steps down, so that another
// one can lead at once.
func runBroker(ctx context.Context, out io.Writer, c config) error {
	b := &broker{config: c, out: out, journal: journal{c.table}}
	connector, err := driver.OpenConnector(c.dsn,
		driver.WithLeaseTable(leaseTable(c.table)),
		driver.WithObserver(b),
		driver.WithLogger(slog.New(slog.DiscardHandler))) // the broker tells it all itself
	if err != nil {
		return err
	}
	b.db = sql.OpenDB(connector)
	defer b.db.Close()
	if err := b.db.PingContext(ctx); err != nil { // Lead would wait for the server to come up
		return err
	}

	options := []lockctx.Option{lockctx.Lease(c.ttl)}
	if c.owner != "" {
		options = append(options, lockctx.Owner(c.owner))
	}
	return lockctx.Lead(ctx, b.db, "broker", b.lead, options...)
}

// leaseTable keeps the example's leases away from yours.
func leaseTable(table string) string { return table + "_lease" }

// lead is what only one broker does at a time. ctx ends when the lease is lost,
// and when the process is to stop.
func (b *broker) lead(ctx context.Context) error {
	lk, _ := lockctx.FromContext(ctx)
	b.token.Store(lk.Token())
	b.say(sayLeads)
	if err := b.journal.create(ctx, b.db); err != nil {
		return err
	}
	for {
		if err := b.deliver(ctx); err != nil {
			return err
		}
	}
}

// deliver writes one message. Nothing in it looks whether the lease is still
// held: the transaction was begun under the lease's context, and so its Commit
// fails if another broker has the lease by then.
func (b *broker) deliver(ctx context.Context) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	n, err := b.journal.add(ctx, tx, b.token.Load())
	if err != nil {
		return err
	}
	b.say("message %d %s", n, sayWritten)

	pause(ctx, b.work)

	err = tx.Commit()
	if errors.Is(err, sql.ErrTxDone) {
		err = ctx.Err() // database/sql was the first to roll back, and does not say why
	}
	switch {
	case err == nil:
		b.say("message %d %s", n, sayCommitted)
	case errors.Is(err, lockctx.ErrLost):
		b.say("message %d %s: %v", n, sayRefused, err)
	default:
		b.say("message %d rolled back: %v", n, err)
	}
	return err
}

// LockEvent implements driver.Observer.
func (b *broker) LockEvent(e driver.Event) {
	switch {
	case e.Kind == driver.EventWaited:
		b.say(sayStandsBy)
	case e.Kind == driver.EventRefused && !errors.Is(e.Err, context.Canceled):
		b.say("cannot lead, and tries again: %v", e.Err)
	case e.Kind == driver.EventDeposed && errors.Is(e.Err, lockctx.ErrLost):
		b.say("is deposed: the lease was lost")
		b.token.Store(0)
	case e.Kind == driver.EventDeposed:
		b.say("steps down")
		b.token.Store(0)
	}
}

// What the demonstration waits to hear from a broker.
const (
	sayStandsBy  = "stands by"
	sayLeads     = "leads"
	sayWritten   = "written"
	sayCommitted = "committed"
	sayRefused   = "refused at COMMIT (ErrLost)"
)

func (b *broker) say(what string, args ...any) {
	line(b.out, b.name, b.token.Load(), "%s", fmt.Sprintf(what, args...))
}

// pause is the work that a message makes, somewhere outside the database.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
