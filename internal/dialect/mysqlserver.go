package dialect

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Open sets the server's idle limits. wait_timeout has whole seconds and ends
// an idle session, in a transaction too; net_write_timeout ends one whose
// client has stopped reading a result. A server that lacks one of them (it
// says 1193) keeps its own.
//
// The query of what the server is has a variable in it, which also makes
// ProxySQL keep the session on one backend from then on.
func (mysqlDialect) Open(ctx context.Context, q Querier, ttl time.Duration) (Server, error) {
	secs := strconv.Itoa(int((ttl + time.Second - 1) / time.Second))
	for _, variable := range []string{"wait_timeout", "net_write_timeout"} {
		if err := q.Exec(ctx, "SET SESSION "+variable+" = "+secs); err != nil && !mysqlAnswered(err) {
			return Server{}, fmt.Errorf("set %s: %w", variable, err)
		}
	}
	row, err := q.QuerySimple(ctx, "SELECT CONNECTION_ID(), VERSION(), "+mysqlRole+", @@hostname, @@port, @@autocommit")
	if err != nil && mysqlAnswered(err) { // it lacks one of the variables
		row, err = q.QuerySimple(ctx, "SELECT CONNECTION_ID(), VERSION()")
	}
	if err != nil {
		return Server{}, fmt.Errorf("ask for the connection's id: %w", err)
	}
	if len(row) < 2 {
		return Server{}, errors.New("the server did not tell the connection's id")
	}
	id, err := integer(row[0])
	if err != nil {
		return Server{}, fmt.Errorf("the connection's id: %w", err)
	}
	s := Server{SessionID: id, Version: text(row[1])}
	s.Identity, s.OneLock = s.Version, mysqlOneLock(s.Version)
	if len(row) == 7 {
		s.NoAutocommit = !on(row[6])
		s.TellsRole = true
		s.Identity = fmt.Sprint(s.Version, " at ", row[4], ":", row[5])
		s.Unsupported = mysqlReplica(row[2:4])
	}
	return s, nil
}

// mysqlRole is what replicas have on: read_only (super_read_only implies it),
// or, with storage that they share with the primary, innodb_read_only.
const mysqlRole = "@@read_only, @@innodb_read_only"

func mysqlReplica(row []driver.Value) string {
	if on(row[0]) || on(row[1]) {
		return "the server is read-only (read_only or innodb_read_only is on), as a replica or a demoted primary is, " +
			"and its locks exclude nobody on the primary: connect to the primary"
	}
	return ""
}

// on reads a variable that is a number on some servers and a word on others.
func on(v driver.Value) bool {
	if n, err := integer(v); err == nil {
		return n != 0
	}
	return text(v) != "" && !strings.EqualFold(text(v), "OFF")
}

// mysqlOneLock tells whether a second GET_LOCK drops the first: before MySQL
// 5.7.5 and MariaDB 10.0.2. A version that does not read as one is taken for new.
func mysqlOneLock(version string) bool {
	limit := [3]int{5, 7, 5}
	if strings.Contains(strings.ToLower(version), "mariadb") {
		limit = [3]int{10, 0, 2}
		version = strings.TrimPrefix(version, "5.5.5-") // what MariaDB says for the sake of old replicas
	}
	var v [3]int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]); n < 3 {
		return false
	}
	for i := range v {
		if v[i] != limit[i] {
			return v[i] < limit[i]
		}
	}
	return false
}

// Cluster asks for what makes GET_LOCK local to one of several servers that
// all take writes.
func (mysqlDialect) Cluster(ctx context.Context, q Querier) (string, error) {
	row, err := q.QuerySimple(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name = 'wsrep_on' AND Value = 'ON'"+
		" OR Variable_name = 'group_replication_single_primary_mode' AND Value = 'OFF'")
	switch {
	case err != nil && mysqlAnswered(err), err == nil && row == nil:
		return "", nil
	case err != nil:
		return "", err
	case strings.EqualFold(text(row[0]), "wsrep_on"):
		return "the server is a node of a Galera cluster (wsrep_on is ON), where GET_LOCK is refused or excludes nobody on the other nodes: " +
			"connect to a single primary outside of the cluster", nil
	}
	return "the server is one of several primaries (group_replication_single_primary_mode is OFF), and its GET_LOCK excludes nobody on the others: " +
		"run the group in single-primary mode, or connect to a single primary", nil
}

// Owner takes NULL for a server that does not keep track: a lock that GET_LOCK
// granted is seen by every session.
func (mysqlDialect) Owner(ctx context.Context, q Querier, s Server, n Name) (Owner, error) {
	row, err := q.QueryRow(ctx, "SELECT IS_USED_LOCK('"+n.text+"')")
	if err != nil || len(row) != 1 || row[0] == nil {
		return OwnerUnknown, err
	}
	if id, err := integer(row[0]); err == nil && id == s.SessionID {
		return OwnerSession, nil
	}
	return OwnerSomeone, nil
}

// Check asks in two statements, since proxies know IS_USED_LOCK only where
// nothing else stands beside it.
func (mysqlDialect) Check(ctx context.Context, q Querier, s Server, held []Name) (string, error) {
	if s.Owner >= OwnerSomeone {
		calls := make([]string, len(held))
		for i, n := range held {
			calls[i] = "IS_USED_LOCK('" + n.text + "')"
		}
		row, err := q.QueryRow(ctx, "SELECT "+strings.Join(calls, ", "))
		if err != nil {
			return "", err
		}
		if len(row) != len(held) {
			return "", fmt.Errorf("%d answers of IS_USED_LOCK for %d locks", len(row), len(held))
		}
		for i, v := range row {
			id, err := integer(v)
			switch {
			case v == nil:
				return "the server says that nobody holds the " + held[i].String() + " any more", nil
			case err == nil && id != s.SessionID && s.Owner == OwnerSession:
				return fmt.Sprintf("the server says that connection %d holds the %v, not this session (%d)", id, held[i], s.SessionID), nil
			}
		}
	}
	if !s.TellsRole {
		return "", nil
	}
	row, err := q.QueryRow(ctx, "SELECT CONNECTION_ID(), "+mysqlRole)
	if err != nil || len(row) != 3 {
		return "", err
	}
	if id, err := integer(row[0]); err == nil && id != s.SessionID && s.Owner == OwnerSession {
		return fmt.Sprintf("the connection has come to another session of the server (%d, it was %d), as a pooler or proxy does", id, s.SessionID), nil
	}
	return mysqlReplica(row[1:]), nil
}
