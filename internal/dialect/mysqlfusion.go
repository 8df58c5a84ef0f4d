package dialect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
)

// Fusion is how a server of MySQL's family takes a lock and begins a transaction
// in one statement.
type Fusion uint8

const (
	// FusionNone: it cannot, or it is not known to.
	FusionNone Fusion = iota
	// FusionAutocommit is MySQL's: the statement switches autocommit off if the
	// lock is granted, and the next one begins the transaction. It is not
	// committed before a COMMIT, after which the release switches it on again.
	FusionAutocommit
	// FusionCompound is a compound statement of MariaDB's: COMMIT and the release
	// go into one, too.
	FusionCompound
)

// MySQLAutocommit ends what FusionAutocommit began, once nothing is uncommitted.
const MySQLAutocommit = "SET autocommit = 1"

// ErrNotHeld is what CommitAndRelease says after a commit, of a lock that the
// session did not hold.
var ErrNotHeld = errors.New("the server said at the release that the session does not hold the lock")

// Begin is what TryAndBegin needs to begin such a transaction; ok is false if
// there is none, and the driver's own BeginTx is to be used.
func (f Fusion) Begin(opts driver.TxOptions) (begin string, ok bool) {
	plain := opts == driver.TxOptions{}
	if f != FusionCompound {
		return "", f == FusionAutocommit && plain
	}
	if opts.Isolation != driver.IsolationLevel(sql.LevelDefault) {
		level, ok := mysqlLevels[sql.IsolationLevel(opts.Isolation)]
		if !ok {
			return "", false
		}
		begin = "SET TRANSACTION ISOLATION LEVEL " + level + "; "
	}
	begin += "START TRANSACTION"
	if opts.ReadOnly {
		begin += " READ ONLY"
	}
	return begin, true
}

var mysqlLevels = map[sql.IsolationLevel]string{
	sql.LevelReadUncommitted: "READ UNCOMMITTED",
	sql.LevelReadCommitted:   "READ COMMITTED",
	sql.LevelRepeatableRead:  "REPEATABLE READ",
	sql.LevelSerializable:    "SERIALIZABLE",
}

// TryAndBegin is Try that begins a transaction if the lock is granted. The server
// refuses 2 as a value of autocommit.
func (f Fusion) TryAndBegin(ctx context.Context, q Querier, n Name, begin string) (granted bool, err error) {
	try := "GET_LOCK('" + n.text + "',0)"
	if f == FusionAutocommit {
		err = q.Exec(ctx, "SET autocommit = IF("+try+"=1,0,2)")
		if mysqlNumber(err) == mysqlWrongValue {
			return false, nil
		}
		return err == nil, err
	}
	err = q.Exec(ctx, "BEGIN NOT ATOMIC CASE "+try+" WHEN 1 THEN "+begin+"; WHEN 0 THEN "+
		mysqlSignal("45000", mysqlNotGrantedNumber, notGrantedText)+"ELSE "+
		mysqlSignal("70100", mysqlInterrupted, "GET_LOCK was interrupted")+"END CASE; END")
	if mysqlNumber(err) == mysqlNotGrantedNumber && strings.Contains(err.Error(), notGrantedText) {
		return false, nil
	}
	return err == nil, err
}

// ReleaseAndAutocommit releases the lock, and switches autocommit on again, after
// the COMMIT of a transaction of FusionAutocommit. After an error each may have
// been done or not.
func (Fusion) ReleaseAndAutocommit(ctx context.Context, q Querier, n Name) error {
	return q.Exec(ctx, "SET autocommit = IF(RELEASE_LOCK('"+n.text+"')=1,1,2)")
}

// CommitAndRelease commits and then releases, in a compound statement. If COMMIT
// fails nothing more is done, and the error is COMMIT's. ErrNotHeld is an error
// of the release. After ErrCommitUnknown the statement was broken off, perhaps
// between the two.
func (Fusion) CommitAndRelease(ctx context.Context, q Querier, n Name) error {
	err := q.Exec(ctx, "BEGIN NOT ATOMIC COMMIT; IF COALESCE(RELEASE_LOCK('"+n.text+"'),0)<>1 THEN "+
		mysqlSignal("45000", mysqlNotHeldNumber, notHeldText)+"END IF; END")
	switch number := mysqlNumber(err); {
	case number == mysqlNotHeldNumber && strings.Contains(err.Error(), notHeldText):
		return ErrNotHeld
	case number == mysqlInterrupted, number == mysqlTimedOut, number == mysqlPrevented && strings.Contains(err.Error(), "mem"):
		if !inTransaction(ctx, q) {
			return errors.Join(ErrCommitUnknown, err)
		}
	}
	return err
}

// FindFusion tries on a session that is closed afterwards, whatever came of it,
// what fusion the server understands. held is a lock that another session holds,
// free one that nobody does.
func FindFusion(ctx context.Context, q Querier, version string, held, free Name) Fusion {
	f, open := FusionAutocommit, "@@autocommit = 0"
	if strings.Contains(strings.ToLower(version), "mariadb") {
		f, open = FusionCompound, "@@in_transaction = 1"
	}
	begin, _ := f.Begin(driver.TxOptions{})
	says := func(query string) bool {
		row, err := q.QuerySimple(ctx, query)
		if err != nil || len(row) != 2 {
			return false
		}
		first, _ := truth(row[0])
		second, _ := truth(row[1])
		return first && second
	}
	closed := "SELECT NOT (" + open + "), IS_USED_LOCK('" + free.text + "') IS NULL"
	if granted, err := f.TryAndBegin(ctx, q, held, begin); granted || err != nil || !says(closed) {
		return FusionNone
	}
	if granted, err := f.TryAndBegin(ctx, q, free, begin); !granted || err != nil ||
		!says("SELECT "+open+", IS_USED_LOCK('"+free.text+"') = CONNECTION_ID()") {
		return FusionNone
	}
	var err error
	if f == FusionCompound {
		err = f.CommitAndRelease(ctx, q, free)
	} else if err = q.Exec(ctx, "COMMIT"); err == nil {
		err = f.ReleaseAndAutocommit(ctx, q, free)
	}
	if err != nil || !says(closed) {
		return FusionNone
	}
	return f
}

// The errors by which the statements above answer: ER_WRONG_VALUE_FOR_VAR, two of
// our own, and ER_OPTION_PREVENTS_STATEMENT, which is also how MariaDB cuts off a
// statement of a session beyond max_session_mem_used.
const (
	mysqlWrongValue       = 1231
	mysqlPrevented        = 1290
	mysqlNotGrantedNumber = 45191
	mysqlNotHeldNumber    = 45192
	notGrantedText        = "lockdb: another session holds the lock"
	notHeldText           = "lockdb: this session does not hold the lock"
)

// mysqlSignal is a statement, of a compound one, that ends it with an error.
func mysqlSignal(state string, errno int64, text string) string {
	return "SIGNAL SQLSTATE '" + state + "' SET MYSQL_ERRNO=" + number(errno) + ",MESSAGE_TEXT='" + text + "'; "
}
