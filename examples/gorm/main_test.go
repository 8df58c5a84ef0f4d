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
		for tries := 0; tries < 5; tries++ { // on a busy machine they may come one after the other
			out.Reset()
			require.NoError(t, run(context.Background(), &out, dialect, s.DSN()))
			t.Log("\n" + out.String())
			if !strings.Contains(out.String(), "without a lock: 10 withdrawals, balance 0\n") {
				break
			}
		}
		require.Contains(t, out.String(), "without a lock: 10 withdrawals, balance ")
		require.NotContains(t, out.String(), "without a lock: 10 withdrawals, balance 0\n")
		require.Contains(t, out.String(), "under a lock:   10 withdrawals, balance 0\n")
		require.Contains(t, out.String(), "the lock:    lockdb: lock lost")
		require.Contains(t, out.String(), "the balance: 0\n")
		_, err := s.Open(t).Exec("SELECT * FROM lockdb_example_accounts")
		require.Error(t, err, "the table was left behind")
	})
}

func TestAnExampleWithoutAServerSaysSo(t *testing.T) {
	require.Error(t, run(context.Background(), &bytes.Buffer{}, "mysql", ""))
}
