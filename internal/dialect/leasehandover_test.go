package dialect_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dialect"
)

// Each waits for the companion at the server, and then has to be granted the lease at once: whoever had
// it before has released it in the statement that freed the companion.
func TestWhoComesToHaveTheCompanionByAReleaseIsGrantedTheLease(t *testing.T) {
	eachDirect(t, func(t *testing.T, tab *table) {
		const members, tenures = 6, 40
		c := tab.companion(t, dialect.CompanionTaken)
		var inside atomic.Int32
		var last atomic.Int64
		var wg sync.WaitGroup
		for i := range members {
			m := tab.member(t).patient(t)
			wg.Go(func() {
				for range tenures {
					l := dialect.Lease{Key: "k", Owner: fmt.Sprint("owner", i), TTL: time.Hour}
					if err := m.tenure(t, l, c, &inside, &last); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func (m *member) tenure(t *testing.T, l dialect.Lease, c dialect.Companion, inside *atomic.Int32, last *atomic.Int64) error {
	ctx := t.Context()
	g, err := m.Claim(ctx, m.querier, m.s, l, c)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	for taken := g.Taken; !g.Granted; {
		if !taken {
			if taken, err = m.d.Wait(ctx, m.querier, c.Name, time.Minute); err != nil || !taken {
				return fmt.Errorf("waited: %v, %w", taken, err)
			}
		}
		if g, err = m.Claim(ctx, m.querier, m.s, l, dialect.Companion{}); err != nil || !g.Granted {
			return fmt.Errorf("claim with the companion: %+v, %w", g, err)
		}
	}
	if n := inside.Add(1); n != 1 {
		return fmt.Errorf("%d hold the lease", n)
	}
	if before := last.Swap(g.Token); before >= g.Token {
		return fmt.Errorf("token %d came after %d", g.Token, before)
	}
	inside.Add(-1)
	l.Token = g.Token
	released, freed, err := m.Release(ctx, m.querier, m.s, l, &c.Name)
	if err != nil || !released || !freed {
		return fmt.Errorf("release: %v, %v, %w", released, freed, err)
	}
	return nil
}

func TestAThousandTokensInARowAreDistinct(t *testing.T) {
	eachTable(t, func(t *testing.T, tab *table) {
		m := tab.member(t)
		var last int64
		for range 1000 {
			l := m.take(t, "k", "me", time.Minute)
			require.Greater(t, l.Token, last)
			last = l.Token
		}
	})
}
