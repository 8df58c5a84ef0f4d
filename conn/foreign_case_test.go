package conn_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// foreignCases are what a program does with a *sql.DB. What they return tells what
// came of it.
var foreignCases = map[string]func(t *testing.T, db *sql.DB) []any{
	"ping": func(t *testing.T, db *sql.DB) []any { return []any{db.Ping()} },
	"exec": func(t *testing.T, db *sql.DB) []any {
		_, err := db.Exec("a")
		_, err2 := db.Exec("b ?", 1)
		return []any{err, err2}
	},
	"named argument": func(t *testing.T, db *sql.DB) []any {
		_, err := db.Exec("a ?", sql.Named("n", 1))
		return []any{err}
	},
	arguments: func(t *testing.T, db *sql.DB) []any {
		_, err := db.Exec("a ?", "skip")
		_, err2 := db.Exec("a ?", "remove")
		_, err3 := db.Exec("a ?", "wrong")
		_, err4 := db.Exec("a ?", []string{"x"})
		return []any{err, err2, err3, err4}
	},
	"query": func(t *testing.T, db *sql.DB) []any {
		var one int
		err := db.QueryRow("a ?", 1).Scan(&one)
		return []any{err, one}
	},
	"statement": func(t *testing.T, db *sql.DB) []any {
		s, err := db.Prepare("a ?")
		if err != nil {
			return []any{err}
		}
		_, err = s.Exec(1)
		_, err2 := s.Exec("remove")
		_, err3 := s.Exec(sql.Named("n", 1))
		var one int
		err4 := s.QueryRow(1).Scan(&one)
		return []any{err, err2, err3, err4, one, s.Close()}
	},
	"two statements at a time": func(t *testing.T, db *sql.DB) []any {
		c, err := db.Conn(context.Background())
		if err != nil {
			return []any{err}
		}
		s1, err := c.PrepareContext(context.Background(), "a")
		s2, err2 := c.PrepareContext(context.Background(), "b")
		if err != nil || err2 != nil {
			return []any{err, err2, c.Close()}
		}
		out := []any{s1.Close()}
		_, err = s2.Exec()
		s3, err3 := c.PrepareContext(context.Background(), "c")
		if err3 == nil {
			_, err3 = s3.Exec()
		}
		return append(out, err, err3, s2.Close(), s3.Close(), c.Close())
	},
	"a transaction that is committed": func(t *testing.T, db *sql.DB) []any {
		tx, err := db.Begin()
		if err != nil {
			return []any{err}
		}
		_, err = tx.Exec("a")
		return []any{err, tx.Commit(), tx.Commit()}
	},
	"a transaction that is rolled back": func(t *testing.T, db *sql.DB) []any {
		tx, err := db.Begin()
		if err != nil {
			return []any{err}
		}
		return []any{tx.Rollback(), tx.Rollback()}
	},
	"transactions with options": func(t *testing.T, db *sql.DB) (out []any) {
		for _, o := range []sql.TxOptions{{Isolation: sql.LevelSerializable}, {ReadOnly: true}} {
			tx, err := db.BeginTx(context.Background(), &o)
			if err == nil {
				err = tx.Rollback()
			}
			out = append(out, err)
		}
		return out
	},
	twoTxs: func(t *testing.T, db *sql.DB) []any {
		c, err := db.Conn(context.Background())
		if err != nil {
			return []any{err}
		}
		tx1, err := c.BeginTx(context.Background(), nil)
		tx2, err2 := c.BeginTx(context.Background(), nil)
		if err != nil || err2 != nil {
			return []any{err, err2, c.Close()}
		}
		return []any{err, err2, tx1.Commit(), tx2.Rollback(), c.Close()}
	},
	"a transaction whose context ends": func(t *testing.T, db *sql.DB) []any {
		ctx, cancel := context.WithCancel(context.Background())
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			cancel()
			return []any{err}
		}
		cancel()
		require.Eventually(t, func() bool { return db.Stats().InUse == 0 }, 20*time.Second, time.Millisecond)
		return []any{tx.Commit(), db.Stats().OpenConnections, db.Ping()}
	},
	"a transaction rolled back under a context that was cancelled afterwards": func(t *testing.T, db *sql.DB) []any {
		ctx, cancel := context.WithCancel(context.Background())
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			cancel()
			return []any{err}
		}
		err = tx.Rollback()
		cancel()
		return []any{err, db.Stats().OpenConnections, db.Ping()}
	},
	"a context that has ended": func(t *testing.T, db *sql.DB) []any {
		c, err := db.Conn(context.Background())
		if err != nil {
			return []any{err}
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err = c.ExecContext(ctx, "a")
		_, err2 := c.PrepareContext(ctx, "b")
		_, err3 := db.BeginTx(ctx, nil)
		_, err4 := db.ExecContext(ctx, "c")
		return []any{err, err2, err3, err4, c.PingContext(ctx), c.Close()}
	},
	"raw": func(t *testing.T, db *sql.DB) []any {
		c, err := db.Conn(context.Background())
		if err != nil {
			return []any{err}
		}
		err = c.Raw(func(any) error { return errors.New("x") })
		err2 := c.Raw(func(any) error { return sqldriver.ErrBadConn })
		return []any{err, err2, db.Stats().OpenConnections, c.Close()}
	},
}

const (
	twoTxs    = "two transactions at a time on one connection"
	arguments = "arguments that a checker sees"
)

// foreignAnswers are answers of the inner driver that are not the usual one.
var foreignAnswers = map[string]func(call string) error{
	"": nil,
	"ErrSkip": func(call string) error {
		if call == "exec a" || call == "exec b ?" || call == "query a ?" || call == "old exec a" {
			return sqldriver.ErrSkip
		}
		return nil
	},
	"ErrBadConn of statements": func(call string) error {
		switch call {
		case "exec a", "exec a ?", "query a ?", "begin", "prepare a", "prepare a ?", "ping":
			return sqldriver.ErrBadConn
		}
		return nil
	},
	"errors of everything": func(call string) error { return fmt.Errorf("error of %s", call) },
	"errors of all but connect": func(call string) error {
		if call == "connect" || call == "valid" {
			return nil
		}
		return fmt.Errorf("error of %s", call)
	},
	"ErrBadConn of Commit and Rollback": func(call string) error {
		if call == "commit" || call == "rollback" {
			return sqldriver.ErrBadConn
		}
		return nil
	},
	"ErrBadConn of ResetSession": func(call string) error {
		if call == "reset" {
			return sqldriver.ErrBadConn
		}
		return nil
	},
	"not valid": func(call string) error {
		if call == "valid" {
			return errors.New("not valid")
		}
		return nil
	},
}
