package dialect_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/dialect"
)

// A lease costs two statements that write a row each: bare is what two such statements cost, sent as
// lease statements are.
func BenchmarkLease(b *testing.B) {
	kinds, err := dbtest.Selected()
	require.NoError(b, err)
	for _, kind := range kinds {
		tab := newTable(b, dbtest.Shared(b, kind).CreateDatabase(b))
		m := tab.member(b)
		m.run(b, "CREATE TABLE bare (k "+tab.sql("VARBINARY(64)", "text")+" PRIMARY KEY, n BIGINT)", "INSERT INTO bare VALUES ('k', 0)")
		b.Run(string(kind)+"/bare", func(b *testing.B) {
			for b.Loop() {
				for range 2 {
					var err error
					if tab.IsMySQL() {
						_, _, err = m.Run(b.Context(), "UPDATE bare SET n=n+1 WHERE k='k'")
					} else if m.s.Pooled {
						err = m.Exec(b.Context(), "UPDATE bare SET n=n+1 WHERE k='k'")
					} else {
						_, err = m.QueryRow(b.Context(), "UPDATE bare SET n=n+1 WHERE k=$1 RETURNING n", values("k")...)
					}
					require.NoError(b, err)
				}
			}
		})
		for mode, name := range map[dialect.CompanionMode]string{dialect.CompanionIgnored: "alone", dialect.CompanionTaken: "companion"} {
			c := tab.companion(b, mode)
			b.Run(string(kind)+"/"+name, func(b *testing.B) {
				for b.Loop() {
					l := dialect.Lease{Key: "k", Owner: "me", TTL: time.Minute}
					g, err := m.Claim(b.Context(), m.querier, m.s, l, c)
					require.NoError(b, err)
					l.Token = g.Token
					var companion *dialect.Name
					if g.Taken {
						companion = &c.Name
					}
					_, _, err = m.Release(b.Context(), m.querier, m.s, l, companion)
					require.NoError(b, err)
				}
			})
		}
		leases := m.fill(b, 20000)
		for _, n := range []int{1, 100, 1000} {
			b.Run(fmt.Sprint(string(kind), "/renew ", n), func(b *testing.B) {
				for b.Loop() {
					require.Equal(b, n, m.renew(b, leases[:n]...))
				}
			})
		}
	}
}
