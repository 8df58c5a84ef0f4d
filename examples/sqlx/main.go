// Command sqlx shows sqlx code under a lock, unchanged: book, below, knows
// nothing of locks. Its context says where it runs.
//
//	go run ./examples/sqlx -dialect mysql    -dsn 'user:password@tcp(127.0.0.1:3306)/dbname'
//	go run ./examples/sqlx -dialect postgres -dsn 'postgres://user:password@127.0.0.1:5432/dbname'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	_ "github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/lockctx"
)

const seats = 3

// Booking is a row like any other. The table's name keeps the example away from
// tables of yours.
type Booking struct {
	Guest string `db:"guest"`
}

var errFull = errors.New("all seats are taken")

// book is sqlx code like any other: it counts, decides, inserts. There is no row
// yet that it could lock.
func book(ctx context.Context, db *sqlx.DB, guest string) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var taken int
	if err := tx.GetContext(ctx, &taken, "SELECT COUNT(*) FROM lockdb_example_bookings"); err != nil {
		return err
	}
	time.Sleep(20 * time.Millisecond) // to decide takes a moment
	if taken >= seats {
		return errFull
	}
	if _, err := tx.NamedExecContext(ctx, "INSERT INTO lockdb_example_bookings (guest) VALUES (:guest)", Booking{guest}); err != nil {
		return err
	}
	return tx.Commit()
}

func main() {
	dialect := flag.String("dialect", "mysql", "mysql (MariaDB too) or postgres")
	dsn := flag.String("dsn", "", "where the server is, as its Go driver has it")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *dialect, *dsn); err != nil {
		fmt.Fprintln(os.Stderr, "sqlx:", err)
		os.Exit(1)
	}
}

// open is all that changes: the name of the driver. sqlx knows drivers by name,
// so for PostgreSQL it has to be told once that this one wants $1 and not ?.
func open(dialect, dsn string) (*sqlx.DB, error) {
	if dialect == "postgres" {
		sqlx.BindDriver("postgres-lockdb", sqlx.DOLLAR)
		return sqlx.Connect("postgres-lockdb", dsn)
	}
	return sqlx.Connect("mysql-lockdb", dsn)
}

func run(ctx context.Context, out io.Writer, dialect, dsn string) (err error) {
	db, err := open(dialect, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TABLE lockdb_example_bookings (guest VARCHAR(20) PRIMARY KEY)"); err != nil {
		return err
	}
	defer func() {
		_, derr := db.ExecContext(context.WithoutCancel(ctx), "DROP TABLE lockdb_example_bookings")
		err = errors.Join(err, derr)
	}()

	fmt.Fprintf(out, "Ten guests book at once; there are %d seats.\n", seats)
	booked, err := tenGuests(ctx, db, func(guest string) error { return book(ctx, db, guest) })
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  without a lock: %d seats sold\n", booked)

	booked, err = tenGuests(ctx, db, func(guest string) error {
		return lockctx.Do(ctx, db.DB, "seats:show-42", func(ctx context.Context) error {
			return book(ctx, db, guest)
		})
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  under a lock:   %d seats sold\n", booked)
	if booked != seats {
		return errors.New("the lock did not keep the guests apart")
	}
	return forget(ctx, out, db)
}

// forget closes a lock while a transaction begun under it is still open.
func forget(ctx context.Context, out io.Writer, db *sqlx.DB) error {
	lk, err := lockctx.Acquire(ctx, db.DB, "seats:show-42")
	if err != nil {
		return err
	}
	defer lk.Close()
	connectionID := "SELECT CONNECTION_ID()"
	if db.DriverName() == "postgres-lockdb" {
		connectionID = "SELECT pg_backend_pid()"
	}
	var locks, others int64
	if err := db.GetContext(lk.Context(), &locks, connectionID); err != nil {
		return err
	}
	if err := db.GetContext(ctx, &others, connectionID); err != nil {
		return err
	}
	fmt.Fprintf(out, "Under the lock's context sqlx runs on connection %d, which holds the lock; without it on %d.\n", locks, others)

	tx, err := db.BeginTxx(lk.Context(), nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(lk.Context(), "DELETE FROM lockdb_example_bookings"); err != nil {
		return err
	}
	closed := lk.Close()
	committed := tx.Commit()
	if committed == nil {
		return errors.New("the commit succeeded without the lock")
	}
	var booked int
	if err := db.GetContext(ctx, &booked, "SELECT COUNT(*) FROM lockdb_example_bookings"); err != nil {
		return err
	}
	fmt.Fprintf(out, "The lock is closed while a transaction under it has deleted all bookings:\n"+
		"  the close:   %v\n  the commit:  %v\n  still there: %d bookings\n", closed, committed, booked)
	return nil
}

// tenGuests runs f for ten guests at once on an empty table and returns how many
// bookings there are then.
func tenGuests(ctx context.Context, db *sqlx.DB, f func(guest string) error) (booked int, err error) {
	if _, err := db.ExecContext(ctx, "DELETE FROM lockdb_example_bookings"); err != nil {
		return 0, err
	}
	errs := make([]error, 10)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			if err := f(fmt.Sprint("guest ", i)); !errors.Is(err, errFull) {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	err = db.GetContext(ctx, &booked, "SELECT COUNT(*) FROM lockdb_example_bookings")
	return booked, err
}
