package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
)

// Session is a client's connection as the server sees it.
type Session struct {
	ID   int64
	User string
	DB   string
	// Command is MySQL's command ("Query", "Sleep") or PostgreSQL's state ("active", "idle in transaction").
	Command string
	// State is what it does or waits for: MySQL's state ("User lock"), PostgreSQL's wait_event ("advisory").
	State string
	// Query is the running statement; on PostgreSQL, of an idle session, the last.
	Query string
	// Program is what the client calls itself: program_name of its connection attributes on MySQL,
	// application_name on PostgreSQL, always empty on MariaDB.
	Program string
}

const mysqlSessions = `
	SELECT p.ID, p.USER, COALESCE(p.DB, ''), p.COMMAND, COALESCE(p.STATE, ''), COALESCE(p.INFO, ''), COALESCE(a.ATTR_VALUE, '')
	FROM %s.processlist p
	LEFT JOIN performance_schema.session_connect_attrs a ON a.PROCESSLIST_ID = p.ID AND a.ATTR_NAME = 'program_name'
	WHERE p.ID <> CONNECTION_ID() AND p.COMMAND NOT IN ('Daemon', 'Connect') AND p.USER NOT IN ('system user', 'event_scheduler')
	ORDER BY p.ID`

const postgresSessions = `
	SELECT pid, COALESCE(usename, ''), COALESCE(datname, ''), COALESCE(state, ''), COALESCE(wait_event, ''), query, application_name
	FROM pg_stat_activity
	WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
	ORDER BY pid`

// Sessions lists the server's sessions, except the one that asks; of a view made by CreateDatabase, only
// those in its database. Behind PgBouncer these are the sessions of PgBouncer.
func (s *Server) Sessions(tb testing.TB) []Session {
	tb.Helper()
	query := postgresSessions
	switch s.kind {
	case MySQL:
		query = fmt.Sprintf(mysqlSessions, "performance_schema")
	case MariaDB:
		query = fmt.Sprintf(mysqlSessions, "information_schema")
	}
	var sessions []Session
	s.ask(tb, func(ctx context.Context, db *sql.DB) error {
		rows, err := db.QueryContext(ctx, query)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var one Session
			if err := rows.Scan(&one.ID, &one.User, &one.DB, &one.Command, &one.State, &one.Query, &one.Program); err != nil {
				return err
			}
			if s.database == "" || s.database == one.DB {
				sessions = append(sessions, one)
			}
		}
		return rows.Err()
	})
	return sessions
}

// KillSession ends a session from outside, as an operator would: KILL, or pg_terminate_backend.
func (s *Server) KillSession(tb testing.TB, id int64) {
	tb.Helper()
	s.ask(tb, func(ctx context.Context, db *sql.DB) error {
		if s.IsMySQL() {
			_, err := db.ExecContext(ctx, fmt.Sprintf("KILL %d", id))
			return err
		}
		var found bool
		err := db.QueryRowContext(ctx, fmt.Sprintf("SELECT pg_terminate_backend(%d)", id)).Scan(&found)
		if err == nil && !found {
			err = fmt.Errorf("kill session %d: there is none", id)
		}
		return err
	})
}

// ask runs fn on a connection of our own, which is closed afterwards: one that was kept would show in
// tests that count connections or goroutines.
func (s *Server) ask(tb testing.TB, fn func(ctx context.Context, db *sql.DB) error) {
	tb.Helper()
	if err := s.do(fn); err != nil {
		tb.Fatalf("dbtest: %s: %v", s.kind, err)
	}
}

func (s *Server) do(fn func(ctx context.Context, db *sql.DB) error) error {
	db, err := sql.Open(s.Driver(), s.admin)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	return fn(ctx, db)
}
