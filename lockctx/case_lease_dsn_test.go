package lockctx_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// leaseSettings are parameters of a DSN that change what statements mean, or how they are sent.
func leaseSettings(k dbtest.Kind) []string {
	switch k {
	case dbtest.PgBouncer: // it takes no others
		return []string{"default_query_exec_mode=simple_protocol", "default_query_exec_mode=exec"}
	case dbtest.Postgres:
		return []string{
			"timezone=Asia/Kathmandu&datestyle=SQL,DMY&intervalstyle=sql_standard&extra_float_digits=-15",
			"default_transaction_isolation=serializable&default_transaction_read_only=on&default_transaction_deferrable=on",
			"default_transaction_isolation=repeatable%20read&synchronous_commit=off&plan_cache_mode=force_generic_plan&enable_indexscan=off",
			"statement_timeout=400&lock_timeout=100&idle_in_transaction_session_timeout=1000&idle_session_timeout=1000",
			"default_query_exec_mode=cache_describe",
			"default_query_exec_mode=describe_exec",
			"default_query_exec_mode=simple_protocol",
			"default_query_exec_mode=exec&statement_cache_capacity=0",
		}
	}
	strict := url.QueryEscape("'TRADITIONAL,ANSI,NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE'")
	isolation, readOnly, limit := "transaction_isolation", "transaction_read_only=1", "max_execution_time=400"
	if k == dbtest.MariaDB {
		isolation, readOnly, limit = "tx_isolation", "tx_read_only=1", "max_statement_time=0.4"
	}
	return []string{
		"loc=Asia%2FTokyo&time_zone=%27-11:00%27",
		"clientFoundRows=true",
		"interpolateParams=true&sql_mode=" + strict,
		"clientFoundRows=true&interpolateParams=true&multiStatements=true&sql_mode=%27%27",
		"autocommit=0&" + isolation + "=%27SERIALIZABLE%27",
		readOnly + "&collation=utf8mb4_bin",
		"sql_safe_updates=1&sql_select_limit=1&sql_auto_is_null=1&group_concat_max_len=4",
		"innodb_lock_wait_timeout=50&rejectReadOnly=true&compress=true&charset=latin1&" + limit,
	}
}

// leaseClient is one with settings, and a neighbour who may have none.
type leaseClient struct {
	name     string
	db       *sql.DB
	neighbor *sql.DB
	key      string
	lk       *lockctx.Lock
	next     <-chan grant
	id       int // of its row
}

// requireLeasesWork has all clients go through the life of a lease at the same time.
func requireLeasesWork(t *testing.T, tab *table, rows *leaseTable, clients []*leaseClient) {
	t.Helper()
	const ttl = 4 * time.Second
	options := &sql.TxOptions{Isolation: sql.LevelRepeatableRead}
	for i, c := range clients {
		c.key, c.id = dbtest.Key(t), i
		c.lk = acquire(t, c.db, c.key, lockctx.Lease(ttl))
		_, err := lockctx.TryAcquire(testCtx(t), c.neighbor, c.key, lockctx.Lease(ttl))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired, c.name)
		row, found := rows.look(c.key)
		require.True(t, found, c.name)
		require.Equal(t, c.lk.Token(), row.token, c.name)
		require.Positive(t, row.left, c.name)
		require.LessOrEqual(t, row.left, ttl, c.name)
		require.NoError(t, inWritableTx(c.lk.Context(), c.db, options, func(tx *sql.Tx) error {
			return tab.insert(testCtx(t), tx, c.id)
		}), c.name)
		c.next = waitForLease(testCtx(t), t, c.neighbor, c.key, lockctx.Lease(ttl))
	}
	time.Sleep(ttl * 6 / 5)
	stood := watchStandstill(t)
	for _, c := range clients {
		require.NoError(t, c.lk.Err(), c.name)
		require.True(t, rows.isHeld(c.key), c.name)
		require.NoError(t, c.lk.Close(), c.name)
		closed := time.Now()
		next := within(t, c.next, promptly, c.name)
		require.NoError(t, next.err, c.name)
		require.Less(t, next.at.Sub(closed), time.Second+stood.time(), c.name)
		require.Greater(t, next.lk.Token(), c.lk.Token(), c.name)
		_, err := lockctx.TryAcquire(testCtx(t), c.db, c.key, lockctx.Lease(ttl))
		require.ErrorIs(t, err, lockctx.ErrNotAcquired, c.name)
		mine := waitForLease(testCtx(t), t, c.db, c.key, lockctx.Lease(time.Minute))
		require.NoError(t, next.lk.Close(), c.name)
		got := within(t, mine, promptly, c.name)
		require.NoError(t, got.err, c.name)
		require.Greater(t, got.lk.Token(), next.lk.Token(), c.name)
		err = inWritableTx(got.lk.Context(), c.db, options, func(tx *sql.Tx) error {
			rows.steal(c.key)
			return tab.insert(testCtx(t), tx, 1000+c.id)
		})
		require.ErrorIs(t, err, lockctx.ErrLost, c.name)
		require.ErrorIs(t, got.lk.Close(), lockctx.ErrLost, c.name)
	}
	require.Len(t, tab.ids(), len(clients), "what was not to be committed was")
}

// inWritableTx runs fn in a transaction that may write, whatever the session says.
func inWritableTx(ctx context.Context, db *sql.DB, opts *sql.TxOptions, fn func(*sql.Tx) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE"); err != nil {
		if _, err := conn.ExecContext(ctx, "SET SESSION TRANSACTION READ WRITE"); err != nil {
			return err
		}
	}
	tx, err := conn.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func TestSettingsChangeNothingForALease(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"of the DSN": leasesUnderADSN, "of the database": leasesInADatabase, "of the server": leasesOnAServer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func leasesUnderADSN(t *testing.T) {
	eachAndPgBouncer(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		view, tab := newTable(t, s)
		var clients []*leaseClient
		for _, param := range leaseSettings(s.Kind()) {
			dsn := withParam(s, view.DSN(), param, param)
			if mode, ok := strings.CutPrefix(param, "default_query_exec_mode="); ok && s.Kind() == dbtest.PgBouncer {
				dsn = strings.Replace(view.DSN(), "default_query_exec_mode=exec", "default_query_exec_mode="+mode, 1)
			}
			clients = append(clients, &leaseClient{name: param, db: openDSN(t, dsn), neighbor: open(t, view)})
		}
		requireLeasesWork(t, tab, newLeaseTable(t, view), clients)
	})
}

func leasesInADatabase(t *testing.T) {
	backend := dbtest.Shared(t, dbtest.Postgres)
	for name, addr := range map[string]string{"directly": backend.Addr(), "through PgBouncer": ownPgBouncer(t).Addr()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view, tab := newTable(t, backend)
			_, database, _ := strings.Cut(strings.TrimPrefix(view.DSN(), "postgres://"), "/")
			database, _, _ = strings.Cut(database, "?")
			for _, setting := range []string{"default_transaction_isolation='serializable'", "timezone='America/Caracas'", "lock_timeout=100", "default_transaction_read_only=on"} {
				_, err := tab.bare.Exec(fmt.Sprintf("ALTER DATABASE %s SET %s", database, setting))
				require.NoError(t, err)
			}
			dsn := withParam(view, view.DSNAt(addr), "", "default_query_exec_mode=exec")
			// tab's session began before.
			requireLeasesWork(t, tab, &leaseTable{t, view, tab.bare}, []*leaseClient{{name: name, db: openDSN(t, dsn), neighbor: openDSN(t, dsn)}})
		})
	}
}

func leasesOnAServer(t *testing.T) {
	for _, k := range []dbtest.Kind{dbtest.MySQL, dbtest.MariaDB} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			s := dbtest.Private(t, k, "transaction-isolation=SERIALIZABLE", "default-time-zone=-09:30", "sql-mode=", "autocommit=0")
			view, tab := newTable(t, s)
			rows := &leaseTable{t, view, openBare(t, view, withParam(view, view.DSN(), "autocommit=1", ""))}
			requireLeasesWork(t, tab, rows, []*leaseClient{{name: "both", db: open(t, view), neighbor: open(t, view)}})
		})
	}
}

func TestAnotherDefaultSchemaInATransactionChangesNothingForItsFence(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		view, tab := newTable(t, s)
		rows := newLeaseTable(t, view)
		var here string
		elsewhere, name := "USE mysql", "SELECT DATABASE()"
		if !s.IsMySQL() {
			elsewhere, name = "SET search_path TO pg_catalog", "SELECT current_schema()"
		}
		require.NoError(t, tab.bare.QueryRow(name).Scan(&here))
		db := open(t, view)
		db.SetMaxOpenConns(1)
		for id, stolen := range []bool{false, true, false} {
			lk := acquire(t, db, dbtest.Key(t), lockctx.Lease(time.Minute))
			tx, err := db.BeginTx(lk.Context(), nil)
			require.NoError(t, err)
			_, err = tx.Exec(elsewhere)
			require.NoError(t, err)
			_, err = tx.Exec(fmt.Sprintf("INSERT INTO %s.t VALUES (%d, 0)", here, id))
			require.NoError(t, err)
			if !stolen {
				require.NoError(t, tx.Commit())
				require.NoError(t, lk.Close())
				continue
			}
			rows.steal(lk.Key())
			require.ErrorIs(t, tx.Commit(), lockctx.ErrLost)
			require.ErrorIs(t, lk.Close(), lockctx.ErrLost)
		}
		require.Equal(t, []int{0, 2}, tab.ids())
	})
}
