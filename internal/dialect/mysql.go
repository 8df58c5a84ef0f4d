package dialect

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockdb/lockdb/internal/lockkey"
)

// MySQL speaks to MySQL, MariaDB and servers that follow them.
var MySQL Dialect = mysqlDialect{}

type mysqlDialect struct{}

func (mysqlDialect) Name() string { return "mysql" }

func (mysqlDialect) Resolve(namespace, key string) (Name, error) {
	name, err := lockkey.Name(namespace, key)
	return Name{space: spaceText, text: name}, err
}

func (d mysqlDialect) Try(ctx context.Context, q Querier, n Name) (bool, error) {
	return d.getLock(ctx, q, n, "0")
}

// mysqlColumns is how many calls go into one SELECT, whose columns are limited
// (4096).
const mysqlColumns = 1000

// TryAll has one column a lock; the server evaluates them from left to right.
func (mysqlDialect) TryAll(ctx context.Context, q Querier, names []Name) (granted []bool, err error) {
	for some := range slices.Chunk(names, mysqlColumns) {
		calls := make([]string, len(some))
		for i, n := range some {
			calls[i] = "GET_LOCK('" + n.text + "', 0)"
		}
		row, err := q.QueryRow(ctx, "SELECT "+strings.Join(calls, ", "))
		if err != nil {
			return nil, err
		}
		more, err := verdicts(row, len(some))
		if err != nil {
			return nil, err
		}
		granted = append(granted, more...)
	}
	return granted, nil
}

// Wait rounds the slice up to whole seconds: MySQL rounds a fraction, to
// either side, and 0 would not wait at all.
//
// A statement that is broken off may have been granted the lock just before, so
// the server is asked.
func (d mysqlDialect) Wait(ctx context.Context, q Querier, n Name, slice time.Duration) (bool, error) {
	granted, err := d.getLock(ctx, q, n, strconv.Itoa(max(1, int((slice+time.Second-1)/time.Second))))
	if !brokenOff(err) {
		return granted, err
	}
	row, err := q.QuerySimple(ctx, "SELECT IS_USED_LOCK('"+n.text+"') = CONNECTION_ID()")
	if err != nil || len(row) != 1 {
		return false, err
	}
	granted, _ = truth(row[0])
	return granted, nil
}

// brokenOff tells of the ends of a statement by KILL QUERY (in MariaDB GET_LOCK
// answers NULL then), or by the time that the session allows for a statement.
func brokenOff(err error) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return errors.Is(err, ErrNull)
	}
	switch e.Number {
	case 1317, 3024, 1969: // ER_QUERY_INTERRUPTED, ER_QUERY_TIMEOUT, MariaDB's ER_STATEMENT_TIMEOUT
		return true
	}
	return false
}

// getLock sends the name as a literal: a placeholder costs go-sql-driver two
// more round trips, and lockkey's alphabet is safe in every sql_mode.
func (mysqlDialect) getLock(ctx context.Context, q Querier, n Name, seconds string) (bool, error) {
	row, err := q.QueryRow(ctx, "SELECT GET_LOCK('"+n.text+"', "+seconds+")")
	if err != nil {
		return false, err
	}
	if len(row) != 1 {
		return false, errors.New("GET_LOCK gave no row")
	}
	granted, null := truth(row[0])
	if null {
		return false, ErrNull
	}
	return granted, nil
}

// Release takes RELEASE_LOCK's 1 for yes; 0 (another session's) and NULL
// (nobody's) both mean that this session did not hold it.
func (mysqlDialect) Release(ctx context.Context, q Querier, n Name) (bool, error) {
	row, err := q.QueryRow(ctx, "SELECT RELEASE_LOCK('"+n.text+"')")
	if err != nil {
		return false, err
	}
	if len(row) != 1 {
		return false, errors.New("RELEASE_LOCK gave no row")
	}
	released, _ := truth(row[0])
	return released, nil
}

func (mysqlDialect) ReleaseAll(ctx context.Context, q Querier) error {
	_, err := q.QueryRow(ctx, "SELECT RELEASE_ALL_LOCKS()")
	return err
}

func (mysqlDialect) Holder(ctx context.Context, q Querier, n Name) (string, error) {
	row, err := q.QueryRow(ctx, "SELECT IS_USED_LOCK('"+n.text+"')")
	if err != nil || len(row) != 1 || row[0] == nil {
		return "", err
	}
	id, err := integer(row[0])
	if err != nil {
		return "", err
	}
	number := strconv.FormatInt(id, 10)
	holder := "connection " + number
	// Without the PROCESS privilege only the own account's sessions show, and not
	// everyone may look into performance_schema. The id alone is an answer, too.
	row, err = q.QuerySimple(ctx, "SELECT p.USER, p.HOST, a.ATTR_VALUE FROM information_schema.PROCESSLIST p"+
		" LEFT JOIN performance_schema.session_connect_attrs a ON a.PROCESSLIST_ID = p.ID AND a.ATTR_NAME = 'program_name'"+
		" WHERE p.ID = "+number)
	if err != nil && mysqlAnswered(err) {
		row, err = q.QuerySimple(ctx, "SELECT USER, HOST, NULL FROM information_schema.PROCESSLIST WHERE ID = "+number)
	}
	if err == nil && len(row) == 3 {
		holder += " of " + text(row[0]) + "@" + text(row[1])
		if program := text(row[2]); program != "" {
			holder += ", application " + strconv.Quote(program)
		}
	}
	return holder + " (SELECT * FROM information_schema.PROCESSLIST WHERE ID = " + number + " shows what it does, KILL " + number + " ends it)", nil
}

// mysqlAnswered reports whether err is the server's own answer.
func mysqlAnswered(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e)
}

func (mysqlDialect) Classify(err error) Class {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return ClassOther
	}
	switch e.Number {
	case 3058, 1213: // ER_USER_LOCK_DEADLOCK; MariaDB has only ER_LOCK_DEADLOCK
		return ClassDeadlock
	case 1040, 1203, 1226: // ER_CON_COUNT_ERROR, ER_TOO_MANY_USER_CONNECTIONS, ER_USER_LIMIT_REACHED
		return ClassServerFull
	case 1235, 1305: // ER_NOT_SUPPORTED_YET, ER_SP_DOES_NOT_EXIST (no such function)
		return ClassUnsupported
	case 1053, 1927, 3169, 4031, // shutdown, MariaDB's connection killed, session killed, closed for inactivity
		1080, 1152, 1158, 1159, 1160, 1161, 1184, // the server gives the connection up: forced, aborted, network errors
		2006, 2013, 2055: // what a proxy says whose own connection to the server has gone
		return ClassGone
	}
	if strings.Contains(e.Message, "pxc_strict_mode") { // 1105, which is any error
		return ClassUnsupported
	}
	return ClassServer
}

func integer(v driver.Value) (int64, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case uint64:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case []byte:
		return strconv.ParseInt(string(v), 10, 64)
	case string:
		return strconv.ParseInt(strings.TrimSpace(v), 10, 64)
	}
	return 0, fmt.Errorf("%T is not an integer", v)
}

// LockCapacity is none: the locks are in memory that grows.
func (mysqlDialect) LockCapacity(context.Context, Querier) (int, error) { return 0, nil }
