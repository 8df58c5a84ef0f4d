// Command gorm shows gorm code under a lock, unchanged: withdraw, below, knows
// nothing of locks. Its context says where it runs.
//
//	go run ./examples/gorm -dialect mysql    -dsn 'user:password@tcp(127.0.0.1:3306)/dbname'
//	go run ./examples/gorm -dialect postgres -dsn 'postgres://user:password@127.0.0.1:5432/dbname'
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	_ "github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/lockctx"
)

// Account is a gorm model like any other.
type Account struct {
	ID      int64
	Balance int64
}

// TableName keeps the example away from tables of yours.
func (Account) TableName() string { return "lockdb_example_accounts" }

// withdraw is gorm code like any other: it reads, decides, writes.
func withdraw(ctx context.Context, db *gorm.DB, amount int64) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var account Account
		if err := tx.First(&account, 1).Error; err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // to decide takes a moment
		if account.Balance < amount {
			return errors.New("not enough money")
		}
		return tx.Model(&account).Update("balance", account.Balance-amount).Error
	})
}

func main() {
	dialect := flag.String("dialect", "mysql", "mysql (MariaDB too) or postgres")
	dsn := flag.String("dsn", "", "where the server is, as its Go driver has it")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *dialect, *dsn); err != nil {
		fmt.Fprintln(os.Stderr, "gorm:", err)
		os.Exit(1)
	}
}

// open is all that changes: lockdb opens the *sql.DB, and gorm gets it.
func open(dialect, dsn string) (*sql.DB, *gorm.DB, error) {
	db, err := sql.Open(dialect+"-lockdb", dsn) // "lockdb" takes either; this one tells a DSN of the other from its own
	if err != nil {
		return nil, nil, err
	}
	dialector := mysql.New(mysql.Config{Conn: db})
	if dialect == "postgres" {
		dialector = postgres.New(postgres.Config{Conn: db})
	}
	g, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, g, nil
}

func run(ctx context.Context, out io.Writer, dialect, dsn string) (err error) {
	db, g, err := open(dialect, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := g.AutoMigrate(&Account{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Migrator().DropTable(&Account{})) }()

	fmt.Fprintln(out, "Ten goroutines withdraw 10 each from an account of 100.")
	granted, balance, err := tenTimes(g, func() error { return withdraw(ctx, g, 10) })
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  without a lock: %d withdrawals, balance %d\n", granted, balance)

	granted, balance, err = tenTimes(g, func() error {
		return lockctx.Do(ctx, db, "account:1", func(ctx context.Context) error {
			return withdraw(ctx, g, 10)
		})
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  under a lock:   %d withdrawals, balance %d\n", granted, balance)
	if granted != 10 || balance != 0 {
		return errors.New("the lock did not keep the withdrawals apart")
	}
	return lose(ctx, out, db, g)
}

// lose kills the lock's session in the middle of a transaction.
func lose(ctx context.Context, out io.Writer, db *sql.DB, g *gorm.DB) error {
	lk, err := lockctx.Acquire(ctx, db, "account:1")
	if err != nil {
		return err
	}
	defer lk.Close()
	connectionID, kill := "SELECT CONNECTION_ID()", "KILL %d"
	if g.Name() == "postgres" {
		connectionID, kill = "SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%d)"
	}
	var locks, others int64
	if err := g.WithContext(lk.Context()).Raw(connectionID).Scan(&locks).Error; err != nil {
		return err
	}
	if err := g.WithContext(ctx).Raw(connectionID).Scan(&others).Error; err != nil {
		return err
	}
	fmt.Fprintf(out, "Under the lock's context gorm runs on connection %d, which holds the lock; without it on %d.\n", locks, others)

	tx := g.WithContext(lk.Context()).Begin()
	defer tx.Rollback()
	if err := tx.Model(&Account{ID: 1}).Update("balance", 1000).Error; err != nil {
		return err
	}
	if err := g.WithContext(ctx).Exec(fmt.Sprintf(kill, locks)).Error; err != nil {
		return err
	}
	<-lk.Context().Done()
	fmt.Fprintf(out, "Connection %d is killed while a transaction on it has set the balance to 1000:\n", locks)
	err = tx.Commit().Error
	if err == nil {
		return errors.New("the commit succeeded without the lock")
	}
	var account Account
	if err := g.WithContext(ctx).First(&account, 1).Error; err != nil {
		return err
	}
	fmt.Fprintf(out, "  the lock:    %v\n  the commit:  %v\n  the balance: %d\n", lk.Err(), err, account.Balance)
	return nil
}

// tenTimes puts 100 on the account and runs f on ten goroutines at once. It
// returns how many succeeded, and what is left.
func tenTimes(g *gorm.DB, f func() error) (granted, balance int64, err error) {
	if err := g.Save(&Account{ID: 1, Balance: 100}).Error; err != nil {
		return 0, 0, err
	}
	var count atomic.Int64
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if f() == nil {
				count.Add(1)
			}
		})
	}
	wg.Wait()
	var account Account
	err = g.First(&account, 1).Error
	return count.Load(), account.Balance, err
}
