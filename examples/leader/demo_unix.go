//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"time"
)

// slack is how much later than the TTL the next broker may lead, for a machine
// with more to do.
const slack = time.Second

// errLate is the machine's fault as likely as not.
var errLate = errors.New("too late")

// demo has three brokers lead in turn.
type demo struct {
	config
	*stage
	db *sql.DB
}

// runDemo tells the story to out. It works on tables with a random name, since the
// server may be in use, and drops them.
func runDemo(ctx context.Context, out io.Writer, c config) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*c.ttl+30*time.Second)
	defer cancel()
	c.table = fmt.Sprintf("lockdb_example_%d", rand.Int64N(1_000_000))
	db, err := sql.Open("lockdb", c.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.PingContext(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop(ctx, db, c.table)) }()

	d := &demo{c, newStage(out), db}
	defer d.clear()
	if err := d.tell(ctx); err != nil {
		return fmt.Errorf("not as told: %w", err)
	}
	return nil
}

// drop drops the tables, also when ctx has ended.
func drop(ctx context.Context, db *sql.DB, table string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, err1 := db.ExecContext(ctx, "DROP TABLE IF EXISTS "+table)
	_, err2 := db.ExecContext(ctx, "DROP TABLE IF EXISTS "+leaseTable(table))
	return errors.Join(err1, err2)
}

// tell is the story.
func (d *demo) tell(ctx context.Context) error {
	one, err := d.start(d.config, "broker 1")
	if err != nil {
		return err
	}
	if err := d.awaitAll(ctx, one, sayLeads); err != nil {
		return err
	}
	for _, name := range []string{"broker 2", "broker 3"} {
		if err := d.standBy(ctx, name); err != nil {
			return err
		}
	}
	two, err := d.kill(ctx, one)
	if err != nil {
		return err
	}
	three, err := d.end(ctx, two)
	if err != nil {
		return err
	}
	if err := d.standBy(ctx, two.name); err != nil {
		return err
	}
	if err := d.stop(ctx, three); err != nil {
		return err
	}
	if err := d.endAll(ctx); err != nil {
		return err
	}
	return d.total(ctx)
}

// standBy starts a broker, as one that does not lead.
func (d *demo) standBy(ctx context.Context, name string) error {
	p, err := d.start(d.config, name)
	if err != nil {
		return err
	}
	return d.awaitAll(ctx, p, sayStandsBy)
}

// kill kills the broker that leads.
func (d *demo) kill(ctx context.Context, leader *process) (next *process, err error) {
	if err := d.awaitAll(ctx, leader, sayCommitted, sayCommitted); err != nil {
		return nil, err
	}
	d.say("kill -9 of %s", leader)
	leader.leaves = true
	next, took, err := d.takeOver(ctx, leader, syscall.SIGKILL)
	if err != nil {
		return nil, err
	}
	d.say("%s leads %d ms after the kill: %v after the last renewal, by the database's clock", next, took.Milliseconds(), d.ttl)
	if took > d.ttl+slack {
		return nil, fmt.Errorf("the failover took %v: %w", took, errLate)
	}
	return next, nil
}

// end ends the broker that leads, as an operator or a deployment does.
func (d *demo) end(ctx context.Context, leader *process) (next *process, err error) {
	if err := d.awaitAll(ctx, leader, sayCommitted, sayCommitted, sayWritten); err != nil {
		return nil, err
	}
	d.say("SIGTERM of %s", leader)
	leader.leaves = true
	next, took, err := d.takeOver(ctx, leader, syscall.SIGTERM)
	if err != nil {
		return nil, err
	}
	d.say("%s leads %d ms after the SIGTERM: it did not have to wait for the expiry", next, took.Milliseconds())
	if took > d.ttl/2 { // an expiry would have taken 2/3 of it at least
		return nil, fmt.Errorf("the hand-over took %v: %w", took, errLate)
	}
	return next, d.awaitEnd(ctx, leader)
}

// stop stops the broker that leads for longer than the TTL, in the midst of a
// transaction, and lets it go on.
func (d *demo) stop(ctx context.Context, leader *process) error {
	if err := d.awaitAll(ctx, leader, sayCommitted, sayCommitted, sayWritten); err != nil {
		return err
	}
	next, took, err := d.takeOver(ctx, leader, syscall.SIGSTOP)
	if err != nil {
		return err
	}
	d.say("SIGSTOP of %s, in the midst of a transaction: %s leads %d ms later", leader, next, took.Milliseconds())
	if took > d.ttl+slack {
		return fmt.Errorf("the failover took %v: %w", took, errLate)
	}
	if err := d.awaitAll(ctx, next, sayCommitted, sayCommitted); err != nil {
		return err
	}
	d.say("SIGCONT of %s, which does not know of all this and goes on to its COMMIT", leader)
	if err := leader.signal(syscall.SIGCONT); err != nil {
		return err
	}
	return d.awaitAll(ctx, leader, sayRefused, sayStandsBy)
}

// takeOver sends the signal to the broker that leads, and tells who leads next,
// and after how long.
func (d *demo) takeOver(ctx context.Context, leader *process, sig syscall.Signal) (next *process, took time.Duration, err error) {
	began := time.Now()
	if err := leader.signal(sig); err != nil {
		return nil, 0, err
	}
	next, err = d.awaitAny(ctx, sayLeads)
	return next, time.Since(began), err
}

// endAll ends the brokers that are left.
func (d *demo) endAll(ctx context.Context) error {
	for _, p := range d.cast {
		if p.leaves {
			continue
		}
		p.leaves = true
		if err := p.signal(syscall.SIGTERM); err != nil {
			return err
		}
		if err := d.awaitEnd(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// total shows what was committed.
func (d *demo) total(ctx context.Context) error {
	all, err := journal{d.table}.tenures(ctx, d.db)
	if err != nil {
		return err
	}
	d.say("what was committed, in its order:")
	for _, t := range all {
		line(d, d.nameOf(t.pid), t.token, "messages %d to %d", t.first, t.last)
	}
	if len(all) != 4 {
		return fmt.Errorf("%d tenures committed something, not 4", len(all))
	}
	d.say("tokens never go back, and no message is missing or there twice")
	return nil
}
