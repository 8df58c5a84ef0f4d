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

// Open asks and sets in one query. idle_session_timeout is new in 14 and
// client_connection_check_interval in 14 on some systems only: pg_settings
// tells what there is, and a server that refuses a value gets the rest without
// it. One that is only like PostgreSQL may not know the query: of it little is
// asked, and nothing set.
func (d postgresDialect) Open(ctx context.Context, q Querier, ttl time.Duration) (s Server, err error) {
	for _, query := range []string{pgOpen(q, ttl, true), pgOpen(q, ttl, false), "SELECT pg_backend_pid(), version()"} {
		s, err = d.open(ctx, q, query)
		if class := d.Classify(err); class != ClassServer && class != ClassUnsupported {
			break
		}
	}
	return s, err
}

// pgReadOnly is true on a server that was told in its configuration to be
// read-only, as tools do to a primary that they demote. What a session or a
// role chose for itself says nothing of the server.
const pgReadOnly = "CASE WHEN current_setting('default_transaction_read_only') = 'on' THEN " +
	"(SELECT source = 'configuration file' FROM pg_settings WHERE name = 'default_transaction_read_only') ELSE false END"

func pgOpen(q Querier, ttl time.Duration, network bool) string {
	ms := strconv.FormatInt(ttl.Milliseconds(), 10)
	// A dead peer must be noticed within the TTL: one probe a second once
	// half of it has passed in silence.
	idle := max(1, int(ttl.Seconds()/2))
	probes := max(1, int(ttl.Seconds())-idle-1)
	settings := []string{"idle_session_timeout=" + ms, "idle_in_transaction_session_timeout=" + ms}
	if network {
		settings = append(settings,
			"tcp_keepalives_idle="+strconv.Itoa(idle),
			"tcp_keepalives_interval=1",
			"tcp_keepalives_count="+strconv.Itoa(probes),
			"tcp_user_timeout="+ms,
			"client_connection_check_interval="+strconv.FormatInt(max(100, ttl.Milliseconds()/3), 10))
	}
	values := make([]string, len(settings))
	for i, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		values[i] = "('" + name + "', '" + value + "')"
	}
	direct := ""
	if pid := q.HandshakePID(); pid != 0 {
		// Behind a pooler the settings would stay on a backend that others use.
		direct = " WHERE pg_backend_pid() = " + strconv.FormatUint(uint64(pid), 10)
	}
	return "SELECT pg_backend_pid(), version(), pg_is_in_recovery(), " + pgReadOnly + ", inet_server_addr()::text, inet_server_port()::text, " +
		"(SELECT count(set_config(s.name, v.value, false)) FROM pg_settings s JOIN (VALUES " +
		strings.Join(values, ", ") + ") AS v(name, value) ON v.name = s.name" + direct + ")"
}

func (postgresDialect) open(ctx context.Context, q Querier, query string) (Server, error) {
	row, err := q.QuerySimple(ctx, query)
	if err != nil {
		return Server{}, fmt.Errorf("prepare the session: %w", err)
	}
	if len(row) < 2 {
		return Server{}, errors.New("the server did not tell what it is")
	}
	id, err := integer(row[0])
	if err != nil {
		return Server{}, fmt.Errorf("the backend's pid: %w", err)
	}
	s := Server{SessionID: id, Version: text(row[1])}
	s.Identity = s.Version
	if len(row) == 7 {
		s.TellsRole = true
		s.Unsupported = pgReplica(row[2], row[3])
		s.Identity += " at " + text(row[4]) + ":" + text(row[5])
	}
	pid := q.HandshakePID()
	switch {
	case strings.Contains(s.Version, "CockroachDB"):
		s.Unsupported = "CockroachDB grants pg_advisory_lock to everyone: connect to a PostgreSQL server"
	case s.Unsupported == "" && pid != 0 && int64(pid) != id:
		s.Pooler = true
		s.Identity += " through a pooler"
		s.Unsupported = fmt.Sprintf("a connection pooler such as PgBouncer stands before the server (the handshake's pid %d is not the backend's pid %d), "+
			"and in transaction mode it gives the lock's session to others: connect to the server directly, use lockctx.Lease, or lockctx.InTx, whose lock is then the transaction's own, "+
			"or set lockdb_pooler=session if the pooler runs in session mode", pid, id)
	}
	return s, nil
}

func pgReplica(recovery, readOnly driver.Value) string {
	if yes, _ := truth(recovery); yes {
		return "the server is a hot standby, whose advisory locks exclude nobody on the primary: connect to the primary"
	}
	if yes, _ := truth(readOnly); yes {
		return "the server is read-only (default_transaction_read_only is on in its configuration), as a demoted primary is, " +
			"and its locks exclude nobody on the new one: connect to the primary"
	}
	return ""
}

// Cluster knows nothing that Open does not ask.
func (postgresDialect) Cluster(context.Context, Querier) (string, error) { return "", nil }

// Owner looks at the locks of the backend that answers.
func (postgresDialect) Owner(ctx context.Context, q Querier, s Server, n Name) (Owner, error) {
	row, err := q.QuerySimple(ctx, pgOwn([]Name{n}))
	if err != nil {
		return OwnerUnknown, err
	}
	moved, err := pgMoved(row, s, []Name{n})
	if err != nil || moved != "" {
		return OwnerNobody, err
	}
	return OwnerSession, nil
}

// Check asks all in one query.
func (postgresDialect) Check(ctx context.Context, q Querier, s Server, held []Name) (string, error) {
	if s.Owner != OwnerSession {
		held = nil
	}
	query := pgOwn(held)
	if s.TellsRole {
		query += ", pg_is_in_recovery(), " + pgReadOnly
	}
	row, err := q.QuerySimple(ctx, query)
	if err != nil {
		return "", err
	}
	if moved, err := pgMoved(row, s, held); err != nil || moved != "" {
		return moved, err
	}
	if len(row) == 4 {
		return pgReplica(row[2], row[3]), nil
	}
	return "", nil
}

// pgOwn asks which backend answers and how many of the locks it holds.
func pgOwn(held []Name) string {
	if len(held) == 0 {
		return "SELECT pg_backend_pid(), 0"
	}
	locks := make([]string, len(held))
	for i, n := range held {
		locks[i] = "(" + pgLocksKey(n) + ")"
	}
	return "SELECT pg_backend_pid(), (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND granted AND mode = 'ExclusiveLock'" +
		" AND locktype = 'advisory' AND (classid, objid, objsubid) IN (" + strings.Join(locks, ", ") + "))"
}

func pgMoved(row []driver.Value, s Server, held []Name) (string, error) {
	if len(row) < 2 {
		return "", errors.New("the server did not tell which locks are held")
	}
	pid, err := integer(row[0])
	if err != nil {
		return "", fmt.Errorf("the backend's pid: %w", err)
	}
	count, err := integer(row[1])
	switch {
	case err != nil:
		return "", fmt.Errorf("the number of locks held: %w", err)
	case pid != s.SessionID:
		return fmt.Sprintf("the connection has come to another server process (pid %d, it was %d), as a pooler or proxy does", pid, s.SessionID), nil
	case count < int64(len(held)) && len(held) == 1:
		return "the server says that this session does not hold the " + held[0].String() + " any more", nil
	case count < int64(len(held)):
		return fmt.Sprintf("the server says that of the %d locks of this session only %d are held", len(held), count), nil
	}
	return "", nil
}
