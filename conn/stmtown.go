package conn

import (
	"context"
	"database/sql/driver"

	"github.com/lockdb/lockdb/internal/sqlscan"
)

// has notes that the statement is prepared on the conn's own session.
func (s *stmt) has(own driver.Stmt) {
	c := s.c
	s.own, s.after = own, c.prepared
	if c.prepared != nil {
		c.prepared.before = s
	}
	c.prepared = s
}

// gives is has undone: it returns what to close, nil if there is nothing.
func (s *stmt) gives() (own driver.Stmt) {
	if s.own == nil {
		return nil
	}
	own = s.own
	if s.before != nil {
		s.before.after = s.after
	} else {
		s.c.prepared = s.after
	}
	if s.after != nil {
		s.after.before = s.before
	}
	s.own, s.before, s.after = nil, nil, nil
	return own
}

// unprepare closes all that is prepared on the conn's own session, before that
// leaves the conn: nobody could close it later. It is prepared again when needed.
func (c *conn) unprepare() {
	for c.prepared != nil {
		_ = c.prepared.gives().Close()
	}
}

// freeStmt is one to use: a program that keeps one statement prepared prepares
// others beside it, on MySQL with every Exec that has parameters.
func (c *conn) freeStmt() *stmt {
	switch s := c.spare; {
	case !c.stmt.used:
		return &c.stmt
	case s != nil:
		c.spare = nil
		return s
	}
	return &stmt{}
}

// prepareOwn prepares on the conn's own session.
func (c *conn) prepareOwn(ctx context.Context, query string, sees sqlscan.Verdict, fromDB bool) (driver.Stmt, error) {
	inner, err := c.own.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	s := c.freeStmt() // empty
	s.c, s.query, s.sees, s.db, s.first, s.used = c, query, sees, fromDB, inner, true
	s.has(inner)
	return s.as(), nil
}

// here is the statement as prepared on the conn's own session.
func (s *stmt) here(ctx context.Context) (driver.Stmt, error) {
	if s.own == nil {
		inner, err := s.c.own.prepare(ctx, s.query)
		if err != nil {
			return nil, err
		}
		s.has(inner)
	}
	return s.own, nil
}
