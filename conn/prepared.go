package conn

import (
	"context"
	"database/sql/driver"
)

// prepared is a statement as prepared on a lock's session. All stmts of the
// same text share it there: a *sql.Stmt has one for each conn of the pool, and a
// program that keeps its statements, as ORMs can, would otherwise prepare each of
// them on the lock's session once for every conn, until the server has its fill.
type prepared struct {
	query string
	inner driver.Stmt
	// Guarded by the session's mu.
	users  int
	closed bool
}

// share returns the statement with that text, prepared if it is not. Under io.
func (s *session) share(ctx context.Context, query string) (*prepared, error) {
	s.mu.Lock()
	p := s.stmts[query]
	if p != nil {
		p.users++
	}
	s.mu.Unlock()
	if p != nil {
		return p, nil
	}
	inner, err := s.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	p = &prepared{query: query, inner: inner, users: 1}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stmts == nil {
		s.stmts = make(map[string]*prepared)
	}
	s.stmts[query] = p
	return p, nil
}

// release gives up what share gave. It may run under database/sql's db.mu, and
// closing a statement can be a round trip: that is left for closeLate.
func (s *session) release(p *prepared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.users--
	if p.users == 0 && !s.closed {
		s.late = append(s.late, p)
	}
}

// unshare has statements prepared anew from now on, for MySQL binds names and
// reads syntax when it prepares. Who has one already keeps it, as on a
// connection of his own.
func (s *session) unshare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.stmts) // what nobody uses is in late, and closed from there
}

// closeLate closes the statements that nobody uses any more. Under io, with no
// result set open.
func (s *session) closeLate() {
	s.mu.Lock()
	late := s.late
	s.late = nil
	unused := late[:0]
	for _, p := range late {
		if p.users == 0 && !p.closed { // it may be here twice, or in use again
			p.closed = true
			if s.stmts[p.query] == p {
				delete(s.stmts, p.query)
			}
			unused = append(unused, p)
		}
	}
	s.mu.Unlock()
	for _, p := range unused {
		_ = p.inner.Close()
	}
}
