package lockctx_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// running is how long the statement is under way when the network vanishes.
const running = 1500 * time.Millisecond

// inFlight are occupations that the server is busy with: nobody can ping then, and TCP keep-alive tells.
var inFlight = append(occupations, occupation{
	"a running statement",
	func(t *testing.T, s *dbtest.Server, db *sql.DB, lk *lockctx.Lock) {
		done := async(func() error {
			_, err := db.ExecContext(context.WithoutCancel(lk.Context()), sleepQuery(s, running.Seconds()))
			return err
		})
		t.Cleanup(func() { within(t, done, promptly, "the end of the statement") })
	},
})

func TestI5_AClientWhoseNetworkVanishesKnowsOfItsLossBeforeAnotherIsGranted(t *testing.T) {
	const ttl = 3 * time.Second
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		cutOff(t, s, ttl, running+ttl+time.Second, inFlight, func(r *dbtest.Relay) { r.Vanish(t) })
	})
}
