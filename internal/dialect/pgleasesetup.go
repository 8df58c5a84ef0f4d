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

// pgSettings are those of a session for lease statements, name and value as SQL. A grant that a
// crash of the server could undo is none. The planner would read the whole table where it takes it
// for small.
var pgSettings = [][2]string{
	{"lock_timeout", "'1000'"},
	{"synchronous_commit", "CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END"},
	{"enable_seqscan", "'off'"},
	{"enable_hashjoin", "'off'"},
	{"enable_mergejoin", "'off'"},
	{"jit", "'off'"},
}

// pgMakeWrite is true where a role, a database or the DSN has made sessions read-only. A server that
// was demoted by its configuration stays so, and whatever is set while it is not would outlast its
// demotion.
const pgMakeWrite = "current_setting('default_transaction_read_only')='on' AND NOT (" + pgReadOnly + ")"

// Setup is one round trip.
func (pgLeases) Setup(ctx context.Context, q Querier, idle time.Duration) (s LeaseServer, err error) {
	settings := append([][2]string{
		{"default_transaction_isolation", "'read committed'"},
		{"default_transaction_read_only", "CASE WHEN " + pgMakeWrite + " THEN 'off' END"},
		{"idle_session_timeout", "'" + number(max(1, idle.Milliseconds())) + "'"}, // new in 14
	}, pgSettings...)
	values := make([]string, len(settings))
	for i, s := range settings {
		values[i] = "('" + s[0] + "'," + s[1] + ")"
	}
	pid := q.HandshakePID()
	direct := "true"
	if pid != 0 {
		direct = "pg_backend_pid()=" + strconv.FormatUint(uint64(pid), 10)
	}
	row, err := q.QuerySimple(ctx, "SELECT pg_backend_pid(),"+pgMakeWrite+",(SELECT count(set_config(s.name,v.value,false)) FROM pg_settings s JOIN (VALUES "+
		strings.Join(values, ",")+") v(name,value) ON v.name=s.name WHERE v.value IS NOT NULL AND "+direct+")")
	if err != nil {
		return s, fmt.Errorf("prepare the session: %w", err)
	}
	if len(row) != 3 {
		return s, errors.New("the server did not tell the backend's pid")
	}
	if s.SessionID, err = integer(row[0]); err != nil {
		return s, fmt.Errorf("the backend's pid: %w", err)
	}
	s.Pooled = pid != 0 && int64(pid) != s.SessionID
	s.makeWrite, _ = truth(row[1])
	s.FenceCommits = true
	return s, nil
}

// pgAlone runs a statement as if Setup had prepared the session, and leaves the session as it was: in
// one message, which is one implicit transaction, so that an error ends it, too.
func pgAlone(ctx context.Context, q Querier, s LeaseServer, statement string) ([]driver.Value, error) {
	if q.HandshakePID() == 0 {
		return q.QuerySimple(ctx, statement)
	}
	begin := "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
	if s.makeWrite {
		begin += ", READ WRITE"
	}
	calls := make([]string, len(pgSettings))
	for i, s := range pgSettings {
		calls[i] = "set_config('" + s[0] + "'," + s[1] + ",true)"
	}
	return q.QueryScript(ctx, begin+"; SELECT "+strings.Join(calls, ",")+"; "+statement)
}
