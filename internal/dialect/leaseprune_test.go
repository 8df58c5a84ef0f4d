package dialect_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPruneDeletesRowsThatAreIdle(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		m := tab.member(t)
		for _, key := range []string{"a", "b", "c", "just-released", "held"} {
			l := m.take(t, key, "me", time.Minute)
			if key != "held" {
				m.release(t, l)
			}
		}
		m.run(t, "UPDATE lockdb_lease SET token=1000 WHERE lease_key IN ('a','b','c')",
			// Whatever its token says, it is held.
			"UPDATE lockdb_lease SET token=1000 WHERE lease_key='held'")
		m.prune(t, time.Hour, 2, 2)
		m.prune(t, time.Hour, 2, 1)
		m.prune(t, time.Hour, 2, 0)
		m.prune(t, 0, 10, 1)
		_, found := m.look(t, "held")
		require.True(t, found)
		_, found = m.look(t, "just-released")
		require.False(t, found)
	})
}

func TestPruneDoesNotWaitForTheRowsOfOthers(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		m, user := tab.member(t), tab.bare(t)
		m.release(t, m.take(t, "a", "me", time.Minute))
		m.take(t, "b", "me", time.Minute)
		m.release(t, m.take(t, "c", "me", time.Minute))
		user.run(t, tab.sql("START TRANSACTION", "BEGIN"), "SELECT * FROM lockdb_lease WHERE lease_key='b' FOR UPDATE")
		m.prune(t, 0, 1000, 2)
		user.run(t, "ROLLBACK")
	})
}

func TestPruneTakesKeysThatSomebodyElseWrote(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		m := tab.member(t)
		m.run(t, `INSERT INTO lockdb_lease VALUES ('it''s "x" `+tab.sql(`\\`, `\`)+` é','',0,`+tab.sql("0", "'epoch'")+`)`)
		m.prune(t, time.Hour, 1000, 1)
	})
}

func TestPruneDeletesAThousandRowsAtOnce(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		m := tab.member(t)
		m.fill(t, 2000)
		m.run(t, "UPDATE lockdb_lease SET expires_"+tab.sql("us=1", "at='2001-01-01'"))
		m.prune(t, time.Hour, 1000, 1000)
		m.prune(t, time.Hour, 1500, 1000)
	})
}
