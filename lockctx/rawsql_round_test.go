package lockctx_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// rawPools are settings with which the bare drivers lose locks, or leave them behind.
var rawPools = map[string]func(*sql.DB){
	"four connections":    func(db *sql.DB) { db.SetMaxOpenConns(4) },
	"one connection":      func(db *sql.DB) { db.SetMaxOpenConns(1) },
	"no idle connections": func(db *sql.DB) { db.SetMaxOpenConns(4); db.SetMaxIdleConns(0) },
	"short lives":         func(db *sql.DB) { db.SetMaxOpenConns(4); db.SetConnMaxLifetime(200 * time.Millisecond) },
}

// load keeps the pool's connections coming and going until the test's end.
func load(t *testing.T, s *dbtest.Server, db *sql.DB) (stop func()) {
	ctx, cancel := context.WithCancel(testCtx(t))
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			for ctx.Err() == nil {
				_, _ = db.ExecContext(ctx, sleepQuery(s, float64(i)/1000))
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

func TestLocksTakenByTextExcludeOthersFromTakeToRelease(t *testing.T) {
	for pool, set := range rawPools {
		t.Run(pool, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
				t.Parallel()
				dsns := map[string]string{"": s.DSN()}
				if s.IsMySQL() && pool == "four connections" {
					dsns[", interpolated"] = s.DSN() + "&interpolateParams=true"
				}
				for how, dsn := range dsns {
					key := dbtest.Key(t)
					db, out := openDSN(t, dsn), newOutsider(t, s)
					set(db)
					stop := load(t, s, db)
					forms := rawForms(t, s, key)
					if pool != "four connections" {
						forms = forms[:5]
					}
					for _, form := range forms {
						for round := range 12 {
							what := fmt.Sprintf("%s%s, round %d", form.name, how, round)
							require.NoError(t, form.take(testCtx(t), db), what)
							require.False(t, out.tryForm(form, key), "%s: it is free while its taker has it", what)
							require.NoError(t, form.release(testCtx(t), db), what)
							require.True(t, out.tryForm(form, key), "%s: it is held after its release", what)
						}
					}
					stop()
					require.Empty(t, heldBy(t, db))
				}
			})
		})
	}
}
