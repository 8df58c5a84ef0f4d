package dialect

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockdb/lockdb/internal/lockkey"
)

// Postgres speaks to PostgreSQL.
var Postgres Dialect = postgresDialect{}

type postgresDialect struct{}

func (postgresDialect) Name() string { return "postgres" }

func (postgresDialect) Resolve(namespace, key string) (Name, error) {
	id, err := lockkey.ID(namespace, key)
	return AdvisoryID(id), err
}

// Try is prepared by pgx on a session's first use, then one round trip: the
// cheapest form there is.
func (postgresDialect) Try(ctx context.Context, q Querier, n Name) (bool, error) {
	return pgTry.call(ctx, q, n)
}

// TryAll has one row a lock, in which the call stands alone, so that it is
// evaluated once.
func (postgresDialect) TryAll(ctx context.Context, q Querier, names []Name) ([]bool, error) {
	ids := make([]string, len(names))
	for i, n := range names {
		if n.space != spaceBigint {
			return nil, errors.New("only keys and bigints can be locked together")
		}
		ids[i] = strconv.FormatInt(n.id, 10)
	}
	rows, err := q.QueryRows(ctx, "SELECT pg_try_advisory_lock(id) FROM unnest('{"+strings.Join(ids, ",")+"}'::bigint[]) AS id")
	if err != nil {
		return nil, err
	}
	return verdicts(rows, len(names))
}

// Wait sends the timeout and the lock as one message, which is one implicit
// transaction: lock_timeout falls back at its end. A blocked pg_advisory_lock
// holds a snapshot, hence the slices. A lock can have been granted although
// the server reported the timeout, so the server is asked.
func (d postgresDialect) Wait(ctx context.Context, q Querier, n Name, slice time.Duration) (bool, error) {
	err := q.Exec(ctx, "SET LOCAL lock_timeout = "+strconv.FormatInt(max(1, slice.Milliseconds()), 10)+
		"; SELECT pg_advisory_lock("+pgArgs(n)+")")
	if err == nil {
		return true, nil
	}
	if !PostgresTimedOut(err) {
		return false, err
	}
	return d.holds(ctx, q, n)
}

// holds asks for the own session's locks. A bigint's halves and a pair's
// members stand in the same columns; objsubid tells them apart.
func (postgresDialect) holds(ctx context.Context, q Querier, n Name) (bool, error) {
	row, err := q.QuerySimple(ctx, "SELECT 1 FROM pg_locks WHERE pid = pg_backend_pid() AND granted AND "+pgLocksWhere(n)+" LIMIT 1")
	return row != nil, err
}

func (postgresDialect) Release(ctx context.Context, q Querier, n Name) (bool, error) {
	return pgUnlock.call(ctx, q, n)
}

func (postgresDialect) ReleaseAll(ctx context.Context, q Querier) error {
	_, err := q.QueryRow(ctx, "SELECT pg_advisory_unlock_all()")
	return err
}

func (postgresDialect) Holder(ctx context.Context, q Querier, n Name) (string, error) {
	row, err := q.QuerySimple(ctx, "SELECT l.pid, coalesce(a.usename, ''), coalesce(a.client_addr::text, 'local'), coalesce(a.application_name, ''), "+
		"coalesce(to_char(a.backend_start, 'YYYY-MM-DD HH24:MI:SS TZ'), '') "+
		"FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.granted AND "+pgLocksWhere(n)+" LIMIT 1")
	if err != nil || len(row) != 5 {
		return "", err
	}
	pid, err := integer(row[0])
	if err != nil {
		return "", err
	}
	holder := fmt.Sprintf("pid %d of %s@%s", pid, text(row[1]), text(row[2]))
	if app := text(row[3]); app != "" {
		holder += ", application " + strconv.Quote(app)
	}
	if since := text(row[4]); since != "" {
		holder += ", connected since " + since
	}
	return fmt.Sprintf("%s (SELECT * FROM pg_stat_activity WHERE pid = %d shows what it does, SELECT pg_terminate_backend(%d) ends it)", holder, pid, pid), nil
}

func (postgresDialect) Classify(err error) Class {
	code := sqlState(err)
	switch code {
	case "":
		return ClassOther
	case "40P01":
		return ClassDeadlock
	case "53300":
		return ClassServerFull
	case "53200":
		return ClassLockTable
	case "0A000", "42883": // feature_not_supported, undefined_function
		return ClassUnsupported
	}
	var e *pgconn.PgError
	if errors.As(err, &e) && e.SeverityUnlocalized == "ERROR" {
		// The session goes on, whatever the code: 08P01 is also a wrong number
		// of parameters, and dblink passes on what befell another connection.
		return ClassServer
	}
	switch code {
	case "57P01", "57P02", "57P03", "57P05", "25P03": // shutdown, crash, starting, idle session, idle in transaction
		return ClassGone
	}
	if strings.HasPrefix(code, "08") {
		return ClassGone
	}
	return ClassServer
}

// pgFunction is a lock function, alone in its SELECT: the planner may evaluate
// it twice in a larger query.
type pgFunction struct {
	ofBigint, ofPair string            // prepared once a session
	literal          func(Name) string // not prepared
}

var (
	pgTry    = pgFunction{"SELECT pg_try_advisory_lock($1)", "SELECT pg_try_advisory_lock($1, $2)", PostgresTry}
	pgUnlock = pgFunction{"SELECT pg_advisory_unlock($1)", "SELECT pg_advisory_unlock($1, $2)", PostgresUnlock}
)

func (f pgFunction) call(ctx context.Context, q Querier, n Name) (bool, error) {
	var row []driver.Value
	var err error
	if n.space == spacePair {
		class, object := n.halves()
		row, err = q.QueryRow(ctx, f.ofPair, driver.NamedValue{Ordinal: 1, Value: int64(class)}, driver.NamedValue{Ordinal: 2, Value: int64(object)})
	} else {
		row, err = q.QueryRow(ctx, f.ofBigint, driver.NamedValue{Ordinal: 1, Value: n.id})
	}
	if sqlState(err) == "26000" { // invalid_sql_statement_name: somebody said DEALLOCATE ALL
		row, err = q.QuerySimple(ctx, f.literal(n)) // pgx prepares it anew next time
	}
	if err != nil {
		return false, err
	}
	if len(row) != 1 {
		return false, errors.New(f.ofBigint + " gave no row")
	}
	yes, null := truth(row[0])
	if null {
		return false, ErrNull
	}
	return yes, nil
}

// PostgresTry and PostgresUnlock are Try and Release as texts, for callers that
// send them together with others.
func PostgresTry(n Name) string    { return "select pg_try_advisory_lock(" + pgArgs(n) + ")" }
func PostgresUnlock(n Name) string { return "select pg_advisory_unlock(" + pgArgs(n) + ")" }

// PostgresTryXact takes a lock that ends with the transaction, if it is free.
func PostgresTryXact(n Name) string { return "SELECT pg_try_advisory_xact_lock(" + pgArgs(n) + ")" }

// PostgresWaitXact waits for such a lock for about slice, in a transaction that
// is aborted if it does not come.
func PostgresWaitXact(n Name, slice time.Duration) string {
	return "SET LOCAL lock_timeout = " + strconv.FormatInt(max(1, slice.Milliseconds()), 10) +
		"; SELECT pg_advisory_xact_lock(" + pgArgs(n) + "); SET LOCAL lock_timeout TO DEFAULT"
}

// PostgresIsolation asks for the isolation level of the transaction.
const PostgresIsolation = "SHOW transaction_isolation"

// PostgresTimedOut tells whether err is the end of a wait for a lock.
func PostgresTimedOut(err error) bool {
	code := sqlState(err)
	return code == "55P03" || code == "57014" // lock_not_available, query_canceled
}

func pgArgs(n Name) string {
	if n.space == spacePair {
		class, object := n.halves()
		return strconv.Itoa(int(class)) + ", " + strconv.Itoa(int(object))
	}
	return strconv.FormatInt(n.id, 10)
}

func pgLocksWhere(n Name) string {
	return "locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())" +
		" AND (classid, objid, objsubid) = (" + pgLocksKey(n) + ")"
}

// pgLocksKey are the columns of pg_locks that tell one lock from another: the
// halves of a bigint, or the members of a pair.
func pgLocksKey(n Name) string {
	class, object := n.halves()
	subid := "1"
	if n.space == spacePair {
		subid = "2"
	}
	return strconv.FormatUint(uint64(uint32(class)), 10) + ", " + strconv.FormatUint(uint64(uint32(object)), 10) + ", " + subid
}

// LockCapacity is what the manual gives under max_locks_per_transaction. The
// server has some room beyond it.
func (postgresDialect) LockCapacity(ctx context.Context, q Querier) (int, error) {
	row, err := q.QuerySimple(ctx, "SELECT current_setting('max_locks_per_transaction')::int * "+
		"(current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int)")
	if err != nil || len(row) != 1 {
		return 0, err
	}
	n, err := integer(row[0])
	return int(n), err
}
