package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/lockctx"
)

// slowWaits is an observer that reports waits of more than a second.
type slowWaits struct{}

func (slowWaits) LockEvent(e driver.Event) {
	switch e.Kind {
	case driver.EventAcquired, driver.EventRefused:
		if e.Duration > time.Second {
			log.Printf("%s %q after %v: %v", e.Kind, e.Key, e.Duration, e.Err)
		}
	case driver.EventLost:
		log.Printf("lost %q, held for %v: %v", e.Key, e.Duration, e.Err)
	}
}

func ExampleHeld() {
	connector, err := driver.OpenConnector(os.Getenv("DSN"),
		driver.WithObserver(slowWaits{}),
		driver.WithLogger(slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	if err != nil {
		log.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()

	held, err := lockctx.Held(context.Background(), db)
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range held {
		if h.Since.IsZero() {
			fmt.Printf("%s: %d wait, held by %s\n", h.Key, h.Waiters, h.HeldBy)
		} else {
			fmt.Printf("%s: held for %v on session %d, %d wait\n", h.Key, time.Since(h.Since), h.Session, h.Waiters)
		}
	}
}

func ExampleStats() {
	db, err := sql.Open("lockdb", os.Getenv("DSN"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	st, err := lockctx.Stats(db)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("locks held:", st.LocksHeld, "waiting:", st.Waiters, "sessions:", st.SessionsOpen)
	if st.Waited > 0 {
		fmt.Println("a wait takes on average:", st.WaitTime/time.Duration(st.Waited))
	}
}

// A job that takes longer than one would keep a session for: its lease has an
// expiry, and a token for what is not in the database.
func ExampleLease() {
	db, err := sql.Open("lockdb", os.Getenv("DSN"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()

	lk, err := lockctx.Acquire(ctx, db, "invoices:2026-11", lockctx.Lease(30*time.Second), lockctx.WithTimeout(time.Minute))
	if errors.Is(err, lockctx.ErrNotAcquired) {
		fmt.Println(err) // it says who holds the lease, and how long still
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer lk.Close()

	// The other side refuses a token that is lower than one it has seen.
	fmt.Println("write invoices with token", lk.Token())

	tx, err := db.BeginTx(lk.Context(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("INSERT INTO invoiced VALUES ('2026-11')"); err != nil {
		log.Fatal(err)
	}
	// Commit looks, inside the transaction, whether the lease is still this one's.
	// A *sql.Tx may say sql.ErrTxDone where the lease was lost before: Err tells.
	if err := tx.Commit(); errors.Is(err, lockctx.ErrLost) || errors.Is(lk.Err(), lockctx.ErrLost) {
		fmt.Println("another process has the lease by now; nothing was committed")
	} else if err != nil {
		log.Fatal(err)
	}
}

// Two goroutines use the session locks that SQL text takes, on one session: as text on
// the *sql.DB each lock would be its goroutine's alone.
func ExamplePin() {
	db, err := sql.Open("lockdb", os.Getenv("DSN"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()

	p, err := lockctx.Pin(ctx, db)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close() // releases what is left

	var got bool
	if err := db.QueryRowContext(p.Context(), "SELECT pg_try_advisory_lock(7)").Scan(&got); err != nil || !got {
		log.Fatal("held by another session: ", err)
	}
	var work errgroup.Group
	for _, table := range []string{"invoices", "payments"} {
		work.Go(func() error {
			tx, err := db.BeginTx(p.Context(), nil) // one after the other: there is one session
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if _, err := tx.Exec("DELETE FROM " + table + " WHERE settled"); err != nil {
				return err
			}
			return tx.Commit()
		})
	}
	if err := work.Wait(); err != nil {
		log.Println(err)
	}
	if err := db.QueryRowContext(p.Context(), "SELECT pg_advisory_unlock(7)").Scan(&got); err != nil {
		log.Fatal(err)
	}
}

// Of the processes that run this, one at a time polls. If it dies, the next one
// takes over when the TTL has passed; if it is told to stop, at once.
func ExampleLead() {
	db, err := sql.Open("lockdb", os.Getenv("DSN"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	err = lockctx.Lead(ctx, db, "poller", func(ctx context.Context) error {
		for {
			err := poll(ctx, db)
			switch {
			case ctx.Err() != nil:
				return nil // lost, and Lead waits for the next turn; or told to stop
			case err != nil:
				return err // and so does Lead; another process leads
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}, lockctx.Lease(15*time.Second))
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// poll works in a transaction, since these are what a lease protects: a statement
// without one takes effect also if another process leads by then.
func poll(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "UPDATE feeds SET polled = polled + 1"); err != nil {
		return err
	}
	return tx.Commit()
}
