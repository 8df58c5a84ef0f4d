package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

func TestTheExampleDoesWhatItSaysOnEveryServer(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		s = s.CreateDatabase(t)
		dialect := "postgres"
		if s.IsMySQL() {
			dialect = "mysql"
		}
		var out bytes.Buffer
		for tries := 0; tries < 5; tries++ { // on a busy machine the guests may come one after the other
			out.Reset()
			require.NoError(t, run(context.Background(), &out, dialect, s.DSN()))
			t.Log("\n" + out.String())
			if !strings.Contains(out.String(), "without a lock: 3 seats sold") {
				break
			}
		}
		require.NotContains(t, out.String(), "without a lock: 3 seats sold")
		require.Contains(t, out.String(), "under a lock:   3 seats sold\n")
		require.Contains(t, out.String(), "the close:   lockdb: lock released")
		require.Contains(t, out.String(), "still there: 3 bookings\n")
		_, err := s.Open(t).Exec("SELECT * FROM lockdb_example_bookings")
		require.Error(t, err, "the table was left behind")
	})
}

func TestAnExampleWithoutAServerSaysSo(t *testing.T) {
	require.Error(t, run(context.Background(), &bytes.Buffer{}, "mysql", ""))
}
