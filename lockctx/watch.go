package lockctx

import (
	"context"
	"database/sql"
	"time"

	"github.com/lockdb/lockdb/conn"
)

// HeldLock is what Held tells of a lock. Its fields are documented at
// [conn.HeldLock].
type HeldLock = conn.HeldLock

// Statistics is what Stats tells. Its fields are documented at
// [conn.Statistics].
type Statistics = conn.Statistics

// Held lists the locks that this process holds through db, and those that it
// waits for, in the order of their keys: one entry for each key, those of
// AcquireAll and of nested locks included (a re-entry is the same lock). An
// entry with a zero Since is a lock that somebody else holds and this process
// only waits for. It asks no server: ctx matters only where another driver wraps
// lockdb's, since the first call for such a db takes a connection of the pool.
func Held(ctx context.Context, db *sql.DB) ([]HeldLock, error) {
	keeper, err := conn.KeeperOf(ctx, db)
	if err != nil {
		return nil, err
	}
	return keeper.Held(), nil
}

// statsPatience bounds the wait for a connection of the pool where another
// driver wraps lockdb's.
const statsPatience = 5 * time.Second

// Stats returns counters and gauges of db's locks in this process, for metrics.
// It asks no server and costs less than a microsecond, except that where another
// driver wraps lockdb's the first call for a db takes a connection of the pool,
// for which it waits at most 5 s.
func Stats(db *sql.DB) (Statistics, error) {
	ctx, cancel := context.WithTimeout(context.Background(), statsPatience)
	defer cancel()
	keeper, err := conn.KeeperOf(ctx, db)
	if err != nil {
		return Statistics{}, err
	}
	return keeper.Stats(), nil
}
