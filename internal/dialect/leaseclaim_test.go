package dialect_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/dialect"
)

func TestALeaseIsRefusedWhileItIsHeldAndTheRefusalSaysHowLong(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		a, b := tab.member(t), tab.member(t)
		held := a.take(t, "k", "a", time.Minute)
		for _, mode := range []dialect.CompanionMode{dialect.CompanionIgnored, dialect.CompanionFree, dialect.CompanionTaken} {
			g, err := b.claim(t.Context(), dialect.Lease{Key: "k", Owner: "b", TTL: time.Hour}, tab.companion(t, mode))
			require.NoError(t, err)
			require.False(t, g.Granted)
			require.InDelta(t, time.Minute, g.Left, float64(20*time.Second))
			require.Equal(t, mode == dialect.CompanionTaken && !b.s.Pooled, g.Taken)
			require.Equal(t, !tab.IsMySQL(), g.Known)
			if g.Known {
				require.Equal(t, "a", g.Holder)
			}
		}
		row, found := b.look(t, "k")
		require.True(t, found)
		require.Equal(t, "a", row.Owner)
		require.Equal(t, held.Token, row.Token)
		require.InDelta(t, time.Minute, row.Left, float64(20*time.Second))
		_, found = b.look(t, "other")
		require.False(t, found)
	})
}

func TestTokensGrowWhateverBecomesOfTheRow(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		m, admin := tab.member(t), tab.bare(t)
		last := m.take(t, "k", "a", time.Minute)
		for what, fn := range map[string]func(){
			"release":  func() { m.release(t, last) },
			"expiry":   func() { admin.run(t, "UPDATE lockdb_lease SET expires_"+tab.sql("us=1", "at='2001-01-01'")) },
			"prune":    func() { m.release(t, last); m.prune(t, 0, 10, 1) },
			"delete":   func() { admin.run(t, "DELETE FROM lockdb_lease") },
			"truncate": func() { admin.run(t, "TRUNCATE TABLE lockdb_lease") },
			"the clock that was ahead": func() {
				admin.run(t, "UPDATE lockdb_lease SET token=token+3600000000")
				row, _ := m.look(t, "k")
				last.Token = row.Token
				m.release(t, last)
			},
		} {
			fn()
			next := m.take(t, "k", "b", time.Minute)
			require.Greater(t, next.Token, last.Token, what)
			last = next
			if what == "the clock that was ahead" { // which a row cannot outlive
				admin.run(t, "DELETE FROM lockdb_lease")
				last = m.take(t, "k", "b", time.Minute)
			}
		}
	})
}

func TestTheSameOwnerTakesItsLeaseOverWithANewToken(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		a, b := tab.member(t), tab.member(t)
		first := a.take(t, "k", "me", time.Minute)
		second := b.take(t, "k", "me", time.Minute)
		require.Greater(t, second.Token, first.Token)

		released, _, err := a.Release(t.Context(), a.querier, a.s, first, nil)
		require.NoError(t, err)
		require.False(t, released)
		require.Zero(t, a.renew(t, first))
		require.Equal(t, 1, b.renew(t, second))
		b.release(t, second)
		b.release(t, second) // again: the answer to the first one may have been lost
	})
}

func TestAnExpiredLeaseIsGranted(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		a, b := tab.member(t), tab.member(t)
		began := time.Now()
		first := a.take(t, "k", "a", 100*time.Millisecond)
		var second dialect.Lease
		require.Eventually(t, func() bool {
			g, err := b.claim(t.Context(), dialect.Lease{Key: "k", Owner: "b", TTL: time.Minute}, dialect.Companion{})
			require.NoError(t, err)
			second.Token = g.Token
			return g.Granted
		}, 10*time.Second, 10*time.Millisecond)
		require.Greater(t, time.Since(began), 90*time.Millisecond)
		require.Greater(t, second.Token, first.Token)
	})
}

// setIsolation sets the session's default, as a DSN does.
func (tab *table) setIsolation(t testing.TB, q *querier, level string) {
	t.Helper()
	q.run(t, "SET SESSION "+tab.sql("", "CHARACTERISTICS AS ")+"TRANSACTION ISOLATION LEVEL "+level)
}

func TestOfManyThatClaimAFreshKeyAtOnceOneIsGranted(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		const many = 50
		for _, level := range levels {
			t.Run(level, func(t *testing.T) {
				members := make([]*member, many)
				for i := range members {
					q := tab.bare(t)
					if tab.Kind() != dbtest.PgBouncer {
						tab.setIsolation(t, q, level)
					}
					s, err := tab.Setup(t.Context(), q, time.Minute)
					require.NoError(t, err)
					members[i] = &member{q, tab, s}
				}
				for round := range 5 {
					grants := make([]dialect.Grant, many)
					var wg sync.WaitGroup
					for i, m := range members {
						wg.Go(func() {
							var err error
							l := dialect.Lease{Key: fmt.Sprint("k", round), Owner: fmt.Sprint("owner", i), TTL: time.Minute}
							if grants[i], err = m.claim(t.Context(), l, dialect.Companion{}); err != nil {
								t.Error(err)
							}
						})
					}
					wg.Wait()
					granted := 0
					for _, g := range grants {
						if g.Granted {
							granted++
						}
					}
					require.Equal(t, 1, granted)
				}
				members[0].run(t, "DELETE FROM lockdb_lease")
				for _, m := range members {
					require.NoError(t, m.Close())
				}
			})
		}
	})
}
