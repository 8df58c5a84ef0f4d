package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// tale is what every run must say, in this order.
var tale = []string{
	"1  The bug",
	"the lock is stuck",
	"2  The same through lockdb",
	"another client is refused, rightly",
	"the other client has it now",
	"without a lock",
	"100 of 100   0 updates lost",
	"All as told",
}

func requireTale(t *testing.T, out string) {
	t.Helper()
	t.Log(out)
	rest := out
	for _, part := range tale {
		_, after, found := strings.Cut(rest, part)
		require.True(t, found, "%q is missing, or comes too early", part)
		rest = after
	}
}

// requireNoTable expects that the test's own database is empty again.
func requireNoTable(t *testing.T, s *dbtest.Server) {
	t.Helper()
	schema := "'public'"
	if s.IsMySQL() {
		schema = "DATABASE()"
	}
	var tables int
	require.NoError(t, s.Open(t).QueryRow("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = "+schema).Scan(&tables))
	require.Zero(t, tables)
}

func TestTheStoryIsTrueOnTheEmbeddedServer(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(context.Background(), &out, ""))
	requireTale(t, out.String())
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 100, "too long for a narrow terminal: %s", line)
	}
}

func TestTheStoryIsTrueOnEveryServerAndLeavesNothingThere(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		s = s.CreateDatabase(t)
		var out bytes.Buffer
		require.NoError(t, run(context.Background(), &out, s.DSN()))
		requireTale(t, out.String())

		requireNoTable(t, s)
	})
}

func TestAnInterruptedRunFailsAndLeavesNothingThere(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		s = s.CreateDatabase(t)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		out := writerFunc(func(b []byte) {
			if bytes.Contains(b, []byte("3  A counter")) {
				cancel()
			}
		})
		require.ErrorIs(t, run(ctx, out, s.DSN()), context.Canceled)

		requireNoTable(t, s)
	})
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }
