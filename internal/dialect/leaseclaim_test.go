package dialect_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dialect"
)

func TestALeaseIsGrantedOnceAndItsTokensGrow(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		a, b := tab.member(t), tab.member(t)
		first := a.take(t, "k", "a", time.Minute)
		g, err := b.claim(t.Context(), dialect.Lease{Key: "k", Owner: "b", TTL: time.Minute}, dialect.Companion{})
		require.NoError(t, err)
		require.False(t, g.Granted)
		require.InDelta(t, time.Minute, g.Left, float64(5*time.Second))
		if g.Known {
			require.Equal(t, "a", g.Holder)
		}
		row, found := b.look(t, "k")
		require.True(t, found)
		require.Equal(t, "a", row.Owner)
		require.Equal(t, first.Token, row.Token)

		a.release(t, first)
		second := b.take(t, "k", "b", time.Minute)
		require.Greater(t, second.Token, first.Token)
		third := a.take(t, "k", "b", time.Minute) // the same owner takes it over
		require.Greater(t, third.Token, second.Token)
		released, _, err := b.Release(t.Context(), b.querier, b.s, second, nil)
		require.NoError(t, err)
		require.False(t, released, "it has been taken over")
		n, err := a.Renew(t.Context(), a.querier, a.s, []dialect.Lease{second})
		require.NoError(t, err)
		require.Zero(t, n)
		n, err = a.Renew(t.Context(), a.querier, a.s, []dialect.Lease{third})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		moved, err := a.Moved(t.Context(), a.querier, a.s, []dialect.Lease{third, second})
		require.NoError(t, err)
		require.Equal(t, []int{1}, moved)
		require.NoError(t, a.Fence(t.Context(), a.querier, a.s, []dialect.Lease{third}))
		require.ErrorIs(t, a.Fence(t.Context(), a.querier, a.s, []dialect.Lease{second}), dialect.ErrMoved)
		n2, err := a.Prune(t.Context(), a.querier, 0, 10)
		require.NoError(t, err)
		require.Zero(t, n2)
		a.release(t, third)
		n2, err = a.Prune(t.Context(), a.querier, 0, 10)
		require.NoError(t, err)
		require.EqualValues(t, 1, n2)
		require.Greater(t, b.take(t, "k", "b", time.Minute).Token, third.Token)
	})
}

func TestTheCompanionIsTakenOnceAndFreedByTheRelease(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		a, b := tab.member(t), tab.member(t)
		if a.s.Pooled {
			return
		}
		c := tab.companion(t, dialect.CompanionTaken)
		l := dialect.Lease{Key: "k", Owner: "a", TTL: time.Minute}
		g, err := a.claim(t.Context(), l, c)
		require.NoError(t, err)
		require.True(t, g.Granted && g.Taken, "%+v", g)
		l.Token = g.Token
		g, err = b.claim(t.Context(), dialect.Lease{Key: "k2", Owner: "b", TTL: time.Minute}, c)
		require.NoError(t, err)
		require.Equal(t, dialect.Grant{}, g)
		g, err = b.claim(t.Context(), dialect.Lease{Key: "k2", Owner: "b", TTL: time.Minute}, dialect.Companion{Mode: dialect.CompanionFree, Name: c.Name})
		require.NoError(t, err)
		require.Equal(t, dialect.Grant{}, g)
		_, found := b.look(t, "k2")
		require.False(t, found)
		released, freed, err := a.Release(t.Context(), a.querier, a.s, l, &c.Name)
		require.NoError(t, err)
		require.True(t, released && freed)
		g, err = b.claim(t.Context(), dialect.Lease{Key: "k", Owner: "b", TTL: time.Minute}, c)
		require.NoError(t, err)
		require.True(t, g.Granted && g.Taken, "%+v: it was taken more than once", g)
		g, err = a.claim(t.Context(), l, dialect.Companion{Mode: dialect.CompanionFree, Name: c.Name})
		require.NoError(t, err)
		require.Equal(t, dialect.Grant{}, g)
	})
}
