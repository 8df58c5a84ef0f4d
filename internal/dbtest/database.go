package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"testing"
)

// CreateDatabase returns a view of the server whose DSN names a fresh database. When the test ends,
// sessions that are still in it are ended and the database is dropped. Locks are not confined to it on
// MySQL and MariaDB, where they are the whole server's.
func (s *Server) CreateDatabase(tb testing.TB) *Server {
	tb.Helper()
	var b [6]byte
	_, _ = rand.Read(b[:]) // It never fails.
	view := *s
	view.database = "lockdb_" + hex.EncodeToString(b[:])
	create := "CREATE DATABASE " + view.database
	if !s.IsMySQL() {
		create += " TEMPLATE template0" // template1 may be in use.
	}
	s.ask(tb, func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, create)
		return err
	})
	tb.Cleanup(func() {
		// A test may well have left its private server dead or stopped.
		if err := s.do(view.drop); err != nil && !s.private {
			tb.Errorf("dbtest: drop database %s on %s: %v", view.database, s.kind, err)
		}
	})
	var err error
	if view.dsn, err = dsnWith(s.kind, s.dsn, "", view.database); err != nil {
		tb.Fatal(err)
	}
	return &view
}

func (s *Server) drop(ctx context.Context, db *sql.DB) error {
	if !s.IsMySQL() {
		_, err := db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+s.database+" WITH (FORCE)")
		return err
	}
	// A session with an open transaction would hold up the drop.
	ids, err := s.sessionIDs(ctx, db)
	if err != nil {
		return err
	}
	for _, id := range ids {
		_, _ = db.ExecContext(ctx, fmt.Sprintf("KILL %d", id)) // It may have ended by itself.
	}
	_, err = db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+s.database)
	return err
}

func (s *Server) sessionIDs(ctx context.Context, db *sql.DB) ([]int64, error) {
	rows, err := db.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE db = ?", s.database)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
