package dbtest

import (
	"errors"
	"testing"
)

// Private starts a server for this test alone and removes it when the test ends. A private PgBouncer
// stands before the shared PostgreSQL; Server.PgBouncer makes one before any other. Settings have the form
// name=value, as in the server's own configuration.
func Private(tb testing.TB, k Kind, settings ...string) *Server {
	tb.Helper()
	needSelected(tb, k)
	s, err := launch(k, settings)
	if errors.Is(err, errMissing) {
		tb.Fatalf("%v\nA test with a server of its own needs the program, even if %s is set.", err, k.dsnEnv())
	}
	if err != nil {
		tb.Fatal(err)
	}
	return s.keep(tb)
}

// keep makes s private to the test.
func (s *Server) keep(tb testing.TB) *Server {
	s.private = true
	tb.Cleanup(s.daemon.end)
	return s
}

func (s *Server) needPrivate(tb testing.TB) {
	tb.Helper()
	if !s.private {
		tb.Fatalf("dbtest: the %s server is shared: disturb only a Private one", s.kind)
	}
}

// Stop freezes the server (SIGSTOP): connections stay open and nothing answers, until Cont.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	s.needPrivate(tb)
	check(tb, s.daemon.stopAll())
}

// Cont lets a stopped server go on.
func (s *Server) Cont(tb testing.TB) {
	tb.Helper()
	s.needPrivate(tb)
	check(tb, s.daemon.contAll())
}

// Kill ends the server at once (SIGKILL), as a crash would. It returns when all its processes are gone.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	s.needPrivate(tb)
	check(tb, s.daemon.killAll())
}

// Start starts a killed server again, on the same port and data, and returns when it answers.
func (s *Server) Start(tb testing.TB) {
	tb.Helper()
	s.needPrivate(tb)
	check(tb, s.daemon.start())
}

// Restart shuts the server down cleanly and starts it again.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.needPrivate(tb)
	check(tb, s.daemon.shutDown())
	check(tb, s.daemon.start())
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
