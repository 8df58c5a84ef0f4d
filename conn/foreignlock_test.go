package conn_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/lockctx"
)

// What a foreign driver does not tell, lockdb answers under a lock as
// database/sql assumes it.
func TestUnderALockAProgramSeesTheSameOfAForeignDriver(t *testing.T) {
	for interfaces, wrap := range fakeConns {
		if _, ok := wrap(&fakeConn{}).(sqldriver.QueryerContext); !ok {
			continue // without it there are no locks
		}
		for _, answers := range []string{"", "ErrSkip"} {
			t.Run(interfaces+"/"+answers, func(t *testing.T) {
				see := func(ctx context.Context, db *sql.DB) (seen []string) {
					rows, err := db.QueryContext(ctx, "a ?", 1) // in a statement, if the driver says ErrSkip
					seen = append(seen, observe(rows, err)...)
					for _, arg := range []any{1, "skip", "remove", "wrong", []string{"x"}, sql.Named("n", 1)} {
						_, err := db.ExecContext(ctx, "a ?", arg)
						seen = append(seen, kind(err))
						stmt, err := db.PrepareContext(ctx, "b ?")
						require.NoError(t, err)
						_, err = stmt.ExecContext(ctx, arg)
						seen = append(seen, kind(err))
						rows, err := stmt.QueryContext(ctx, arg)
						seen = append(seen, observe(rows, err)...)
						require.NoError(t, stmt.Close())
					}
					for _, o := range []sql.TxOptions{{}, {Isolation: sql.LevelSerializable}, {ReadOnly: true}} {
						tx, err := db.BeginTx(ctx, &o)
						seen = append(seen, kind(err))
						if err == nil {
							seen = append(seen, kind(tx.Commit()))
						}
					}
					return append(seen, kind(db.PingContext(ctx)))
				}
				d := &fakeDriver{wrap: wrap, fail: foreignAnswers[answers]}
				bare, db := sql.OpenDB(d), openFake(t, d)
				lk, err := lockctx.Acquire(testCtx(t), db, "key")
				require.NoError(t, err)
				require.Equal(t, see(testCtx(t), bare), see(lk.Context(), db))
				require.NoError(t, lk.Close())
				require.NoError(t, db.Close())
				require.NoError(t, bare.Close())
			})
		}
	}
}
