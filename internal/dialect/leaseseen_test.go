package dialect_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dialect"
)

func TestAClaimOfARowThatIsFreeLeavesItToWhoeverHasTheCompanion(t *testing.T) {
	eachDirect(t, func(t *testing.T, tab *table) {
		a, b := tab.member(t), tab.member(t)
		free := a.take(t, "k", "a", time.Minute)
		a.release(t, free)
		c := tab.companion(t, dialect.CompanionTaken)
		has, err := tab.d.Try(t.Context(), a.querier, c.Name)
		require.NoError(t, err)
		require.True(t, has)
		for range 3 {
			for _, mode := range []dialect.CompanionMode{dialect.CompanionTaken, dialect.CompanionFree} {
				g, err := b.claim(t.Context(), dialect.Lease{Key: "k", Owner: "b", TTL: time.Minute}, dialect.Companion{Mode: mode, Name: c.Name})
				require.NoError(t, err)
				require.Equal(t, dialect.Grant{}, g)
			}
		}
		row, _ := a.look(t, "k")
		require.Equal(t, free.Token, row.Token)
		require.Equal(t, "a", row.Owner)
		released, err := tab.d.Release(t.Context(), a.querier, c.Name)
		require.NoError(t, err)
		require.True(t, released)
		b.requireFree(t, c.Name)
	})
}

func TestAClaimOfARowThatIsGoneTakesTheCompanionOnce(t *testing.T) {
	eachDirect(t, func(t *testing.T, tab *table) {
		a, b := tab.member(t), tab.member(t)
		c := tab.companion(t, dialect.CompanionTaken)
		for range 4 {
			l := dialect.Lease{Key: "k", Owner: "a", TTL: time.Minute, Seen: true}
			g, err := a.claim(t.Context(), l, c)
			require.NoError(t, err)
			require.True(t, g.Granted && g.Taken, "%+v", g)
			l.Token = g.Token
			released, freed, err := a.Release(t.Context(), a.querier, a.s, l, &c.Name)
			require.NoError(t, err)
			require.True(t, released && freed)
			b.requireFree(t, c.Name)
			b.run(t, "DELETE FROM lockdb_lease")
		}
	})
}

func TestAClaimThatIsKilledTellsWhetherItTookTheCompanion(t *testing.T) {
	eachDirect(t, func(t *testing.T, tab *table) {
		a, b, keeper := tab.member(t), tab.member(t).patient(t), tab.bare(t)
		a.release(t, a.take(t, "k", "a", time.Minute))
		c := tab.companion(t, dialect.CompanionTaken)
		for range 3 {
			keeper.run(t, tab.sql("START TRANSACTION", "BEGIN"), "UPDATE lockdb_lease SET token=token+1")
			grants := make(chan dialect.Grant, 1)
			go func() {
				g, err := b.Claim(t.Context(), b.querier, b.s, dialect.Lease{Key: "k", Owner: "b", TTL: time.Minute}, c)
				if err == nil {
					t.Error("it was not killed")
				}
				grants <- g
			}()
			id := fmt.Sprint(b.s.SessionID)
			require.Eventually(t, func() bool {
				for _, s := range tab.Sessions(t) {
					if fmt.Sprint(s.ID) == id {
						return tab.IsMySQL() && s.Command != "Sleep" || s.State == "transactionid"
					}
				}
				return false
			}, 10*time.Second, time.Millisecond)
			g := untilItEnds(grants, func() { a.run(t, tab.sql("KILL QUERY "+id, "SELECT pg_cancel_backend("+id+")")) })
			require.False(t, g.Granted)
			released, err := tab.d.Release(t.Context(), b.querier, c.Name)
			require.NoError(t, err)
			require.Equal(t, g.Taken, released)
			a.requireFree(t, c.Name)
			keeper.run(t, "ROLLBACK")
		}
	})
}

func TestStatementsThatAreKeptPreparedSeeWhatBecomesOfTheTable(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		m, admin := tab.member(t), tab.bare(t)
		last := m.take(t, "k", "a", time.Minute)
		m.release(t, last)
		for _, what := range []string{
			"ALTER TABLE lockdb_lease ADD COLUMN note int",
			"ALTER TABLE lockdb_lease DROP COLUMN note",
			"DROP TABLE lockdb_lease",
		} {
			admin.run(t, what)
			if what == "DROP TABLE lockdb_lease" {
				_, err := m.Claim(t.Context(), m.querier, m.s, dialect.Lease{Key: "k", Owner: "a", TTL: time.Minute}, dialect.Companion{})
				require.Equal(t, dialect.LeaseFaultNoTable, m.Fault(err), "%v", err)
				require.NoError(t, m.Create(t.Context(), admin, m.s))
			}
			next := m.take(t, "k", "a", time.Minute)
			require.Greater(t, next.Token, last.Token, what)
			m.release(t, next)
			last = next
		}
	})
}
