package main

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// TestMain lets the demonstration start this program as a broker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-name" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTheJournalIsReadByTenure(t *testing.T) {
	withJournal(t, [][2]int64{{1, 70}, {2, 70}, {3, 80}}, func(t *testing.T, all []tenure, err error) {
		require.NoError(t, err)
		require.Equal(t, []tenure{{token: 70, pid: 5, first: 1, last: 2}, {token: 80, pid: 5, first: 3, last: 3}}, all)
	})
}

func TestATokenThatGoesBackInTheJournalIsFound(t *testing.T) {
	withJournal(t, [][2]int64{{1, 70}, {2, 80}, {3, 70}}, func(t *testing.T, _ []tenure, err error) {
		require.ErrorContains(t, err, "message 3 has token 70, and an earlier one 80")
	})
}

func TestAMessageThatIsTwiceInTheJournalIsFound(t *testing.T) {
	withJournal(t, [][2]int64{{1, 70}, {2, 70}, {2, 80}}, func(t *testing.T, _ []tenure, err error) {
		require.ErrorContains(t, err, "message 2 comes after message 2")
	})
}

// withJournal reads messages (n, token) on every server.
func withJournal(t *testing.T, messages [][2]int64, fn func(*testing.T, []tenure, error)) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db := s.CreateDatabase(t).Open(t)
		j := journal{"journal"}
		require.NoError(t, j.create(context.Background(), db))
		for _, m := range messages {
			insert := "INSERT INTO journal (n, token, pid) VALUES (?, ?, 5)"
			if !s.IsMySQL() {
				insert = "INSERT INTO journal (n, token, pid) VALUES ($1, $2, 5)"
			}
			_, err := db.Exec(insert, m[0], m[1])
			require.NoError(t, err)
		}
		all, err := j.tenures(context.Background(), db)
		fn(t, all, err)
	})
}

func TestABrokerWithoutAServerSaysSo(t *testing.T) {
	require.Error(t, runBroker(context.Background(), io.Discard, config{name: "broker", table: "t", ttl: time.Second}))
}
