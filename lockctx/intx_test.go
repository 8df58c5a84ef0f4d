package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// counter makes a table with one counter and returns its name.
func counter(t *testing.T, db *sql.DB) string {
	t.Helper()
	key := dbtest.Key(t)
	name := "counter_" + key[strings.LastIndexByte(key, ':')+1:]
	exec := func(query string) {
		_, err := db.Exec(query)
		require.NoError(t, err)
	}
	exec("CREATE TABLE " + name + " (n INT NOT NULL)")
	t.Cleanup(func() { _, _ = db.Exec("DROP TABLE " + name) })
	exec("INSERT INTO " + name + " VALUES (0)")
	return name
}

// raise reads and writes in two statements: without a lock it loses updates.
func raise(table string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT n FROM "+table).Scan(&n); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE "+table+" SET n = "+strconv.Itoa(n+1))
		return err
	}
}

func TestInTxLosesNoUpdateUnderAnyIsolation(t *testing.T) {
	levels := []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		bare := s.Open(t)
		for _, level := range levels {
			t.Run(level.String(), func(t *testing.T) {
				table, key := counter(t, bare), dbtest.Key(t)
				var wg sync.WaitGroup
				for range 2 { // two processes
					db := open(t, s)
					for range 5 {
						wg.Go(func() {
							for range 8 {
								err := lockctx.InTx(testCtx(t), db, key, &sql.TxOptions{Isolation: level}, raise(table))
								if err != nil {
									t.Error(err)
								}
							}
						})
					}
				}
				wg.Wait()
				var n int
				require.NoError(t, bare.QueryRow("SELECT n FROM "+table).Scan(&n))
				require.Equal(t, 80, n)
			})
		}
	})
}

func TestInTxRollsBackOnErrorAndPanicAndReleases(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, key, out := open(t, s), dbtest.Key(t), newOutsider(t, s)
		table := counter(t, s.Open(t))
		mine := errors.New("mine")
		err := lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(raise(table)(ctx, tx), mine)
		})
		require.ErrorIs(t, err, mine)
		require.True(t, out.try(key))
		require.PanicsWithValue(t, "mine", func() {
			_ = lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
				_ = raise(table)(ctx, tx)
				panic("mine")
			})
		})
		require.True(t, out.try(key))
		var n int
		require.NoError(t, db.QueryRow("SELECT n FROM "+table).Scan(&n))
		require.Zero(t, n)
	})
}

func TestInTxLeavesNothingOnItsSession(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, key, out := open(t, s, driver.WithMaxIdleSessions(1)), dbtest.Key(t), newOutsider(t, s)
		for range 3 {
			require.NoError(t, lockctx.InTx(testCtx(t), db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
				require.False(t, out.try(key))
				return nil
			}))
			require.True(t, out.try(key))
			lk := acquire(t, db, key+"2") // the same session, without a transaction
			if !s.IsMySQL() {
				var xid [2]int64
				for i := range xid {
					require.NoError(t, db.QueryRowContext(lk.Context(), "SELECT txid_current()").Scan(&xid[i]))
				}
				require.NotEqual(t, xid[0], xid[1], "a transaction is open")
			}
			require.NoError(t, lk.Close())
		}
		// An option that the driver refuses is told by it, and nothing stays behind.
		require.Error(t, lockctx.InTx(testCtx(t), db, key, &sql.TxOptions{Isolation: 99}, func(context.Context, *sql.Tx) error { return nil }))
		require.True(t, out.try(key))
	})
}
