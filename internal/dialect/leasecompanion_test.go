package dialect_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/dialect"
)

// eachDirect is eachTable without PgBouncer, which leaves no session to a companion.
func eachDirect(t *testing.T, fn func(t *testing.T, tab *table)) {
	eachTable(t, func(t *testing.T, tab *table) {
		if !tab.member(t).s.Pooled {
			fn(t, tab)
		}
	})
}

// requireFree fails if any session has the companion.
func (m *member) requireFree(t testing.TB, n dialect.Name) {
	t.Helper()
	free, err := m.d.Try(t.Context(), m.querier, n)
	require.NoError(t, err)
	require.True(t, free)
	_, err = m.d.Release(t.Context(), m.querier, n)
	require.NoError(t, err)
}

func TestTheCompanionIsTakenOnceAndFreedByTheRelease(t *testing.T) {
	eachDirect(t, func(t *testing.T, tab *table) {
		a, b := tab.member(t), tab.member(t)
		taken := tab.companion(t, dialect.CompanionTaken)
		free := dialect.Companion{Mode: dialect.CompanionFree, Name: taken.Name}
		for range 5 { // the statements may come to be planned in another way
			l := dialect.Lease{Key: "k", Owner: "a", TTL: time.Minute}
			g, err := a.claim(t.Context(), l, taken)
			require.NoError(t, err)
			require.True(t, g.Granted && g.Taken, "%+v", g)
			l.Token = g.Token

			for _, c := range []dialect.Companion{taken, free} {
				g, err = b.claim(t.Context(), dialect.Lease{Key: "other", Owner: "b", TTL: time.Minute}, c)
				require.NoError(t, err)
				require.Equal(t, dialect.Grant{}, g, "the companion is not free")
				_, found := b.look(t, "other")
				require.False(t, found)
			}
			released, freed, err := a.Release(t.Context(), a.querier, a.s, l, &taken.Name)
			require.NoError(t, err)
			require.True(t, released && freed)
			b.requireFree(t, taken.Name)
		}
	})
}

func TestTheCompanionIsTakenOnceByAClaimThatIsRefused(t *testing.T) {
	eachDirect(t, func(t *testing.T, tab *table) {
		a, b := tab.member(t), tab.member(t)
		a.take(t, "k", "a", time.Minute)
		for range 5 {
			c := tab.companion(t, dialect.CompanionTaken)
			g, err := b.claim(t.Context(), dialect.Lease{Key: "k", Owner: "b", TTL: time.Minute}, c)
			require.NoError(t, err)
			require.True(t, g.Taken && !g.Granted, "%+v", g)
			released, err := tab.d.Release(t.Context(), b.querier, c.Name)
			require.NoError(t, err)
			require.True(t, released)
			a.requireFree(t, c.Name)
		}
	})
}

func TestAClaimThatLooksWhetherTheCompanionIsFreeLeavesItSo(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		a, b := tab.member(t), tab.member(t)
		c := tab.companion(t, dialect.CompanionFree)
		g, err := a.claim(t.Context(), dialect.Lease{Key: "k", Owner: "a", TTL: time.Minute}, c)
		require.NoError(t, err)
		require.True(t, g.Granted && !g.Taken, "%+v", g)
		b.requireFree(t, c.Name)
	})
}

func TestAReleaseOfWhatIsNotOnesOwnLeavesTheCompanion(t *testing.T) {
	eachDirect(t, func(t *testing.T, tab *table) {
		a, b := tab.member(t), tab.member(t)
		c := tab.companion(t, dialect.CompanionTaken)
		l := dialect.Lease{Key: "k", Owner: "a", TTL: time.Minute}
		g, err := a.claim(t.Context(), l, c)
		require.NoError(t, err)
		l.Token = g.Token - 1
		released, freed, err := a.Release(t.Context(), a.querier, a.s, l, &c.Name)
		require.NoError(t, err)
		require.False(t, released || freed)
		l.Token = g.Token
		released, freed, err = b.Release(t.Context(), b.querier, b.s, l, &c.Name)
		require.NoError(t, err)
		require.True(t, released)
		require.False(t, freed, "it is another session's")
		free, err := tab.d.Try(t.Context(), b.querier, c.Name)
		require.NoError(t, err)
		require.False(t, free)
	})
}

// A release frees the companion before it is committed. Whoever gets the companion must not be refused by
// what it sees of the row before that: it would sleep until the lease expires.
func TestAClaimWaitsForAReleaseThatIsNotCommittedYet(t *testing.T) {
	eachDirect(t, func(t *testing.T, tab *table) {
		for _, mode := range []dialect.CompanionMode{dialect.CompanionTaken, dialect.CompanionIgnored} {
			for _, end := range []string{"COMMIT", "ROLLBACK"} {
				a, b := tab.member(t), tab.member(t).patient(t)
				a.run(t, "DELETE FROM lockdb_lease")
				c := tab.companion(t, dialect.CompanionTaken)
				l := dialect.Lease{Key: "k", Owner: "a", TTL: time.Minute}
				g, err := a.claim(t.Context(), l, c)
				require.NoError(t, err)
				l.Token = g.Token
				a.run(t, tab.sql("START TRANSACTION", "BEGIN"))
				released, freed, err := a.Release(t.Context(), a.querier, a.s, l, &c.Name)
				require.NoError(t, err)
				require.True(t, released && freed)

				grants := make(chan dialect.Grant)
				go func() {
					g, err := b.Claim(t.Context(), b.querier, b.s, dialect.Lease{Key: "k", Owner: "b", TTL: time.Minute}, dialect.Companion{Mode: mode, Name: c.Name})
					if err != nil {
						t.Error(err)
					}
					grants <- g
				}()
				select {
				case g := <-grants:
					t.Fatalf("it did not wait: %+v", g)
				case <-time.After(50 * time.Millisecond):
				}
				a.run(t, end)
				g = <-grants
				require.Equal(t, end == "COMMIT", g.Granted, "%+v", g)
				require.Equal(t, mode == dialect.CompanionTaken, g.Taken, "%+v", g)
				if g.Taken {
					released, err := tab.d.Release(t.Context(), b.querier, c.Name)
					require.NoError(t, err)
					require.True(t, released)
				}
				a.requireFree(t, c.Name)
			}
		}
	})
}

func TestAClaimThatFailsTellsWhetherItTookTheCompanion(t *testing.T) {
	eachDirect(t, func(t *testing.T, tab *table) {
		a, b, keeper := tab.member(t), tab.member(t), tab.bare(t)
		a.release(t, a.take(t, "k", "a", time.Minute))
		keeper.run(t, tab.sql("START TRANSACTION", "BEGIN"), "UPDATE lockdb_lease SET token=token+1")
		c := tab.companion(t, dialect.CompanionTaken)
		g, err := b.Claim(t.Context(), b.querier, b.s, dialect.Lease{Key: "k", Owner: "b", TTL: time.Minute}, c)
		require.Error(t, err, "it waited for the row without an end")
		require.Equal(t, dialect.LeaseFaultRetry, tab.Fault(err), "%v", err)
		require.False(t, g.Granted, "%+v", g)
		if !tab.known || tab.Kind() != dbtest.MariaDB { // which takes the companion after the row then
			require.True(t, g.Taken, "%+v", g)
		}
		keeper.run(t, "ROLLBACK")
		released, err := tab.d.Release(t.Context(), b.querier, c.Name)
		require.NoError(t, err)
		require.Equal(t, g.Taken, released)
		a.requireFree(t, c.Name)
	})
}
