package lockctx_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

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
