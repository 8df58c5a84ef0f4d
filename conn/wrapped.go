package conn

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"sync"
	"time"
	"weak"
)

// wrapped remembers the keepers of *sql.DBs that other drivers wrap, for as
// long as the DBs live.
var wrapped sync.Map // weak.Pointer[sql.DB] → *Keeper

// KeeperFor is KeeperOf for a request: where it needs a connection of the pool
// and none is free, it waits no longer than the request would wait for the lock.
// What it waited is taken off the request's Timeout.
func KeeperFor(ctx context.Context, db *sql.DB, req *Request) (*Keeper, error) {
	if unwrapped(db) {
		return KeeperOf(ctx, db)
	}
	start, wait := time.Now(), ctx
	if req.Try || req.Timeout > 0 {
		patience := req.Timeout
		switch {
		case req.Try && poolIsFull(db):
			patience = 0
		case req.Try: // a dial is not a wait for others
			patience = dialTimeout
		}
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	k, err := KeeperOf(wait, db)
	if err == nil {
		if req.Timeout > 0 {
			req.Timeout = max(req.Timeout-time.Since(start), time.Millisecond)
		}
		return k, nil
	}
	if wait.Err() == nil {
		return nil, err
	}
	why := ctx.Err()
	if why == nil {
		why = ErrNotAcquired
	}
	return nil, fault(req.Key, fmt.Sprintf("waited %v for a connection of the pool (the first call for a *sql.DB needs one where "+
		"another driver, %T, wraps lockdb's)", time.Since(start).Round(time.Millisecond), db.Driver()), why)
}

// unwrapped tells whether KeeperOf(db) needs no connection.
func unwrapped(db *sql.DB) bool {
	if db == nil {
		return true
	}
	if _, ok := db.Driver().(*Driver); ok {
		return true
	}
	_, known := wrapped.Load(weak.Make(db))
	return known
}

func poolIsFull(db *sql.DB) bool {
	s := db.Stats()
	return s.MaxOpenConnections > 0 && s.InUse >= s.MaxOpenConnections
}

func wrappedKeeper(ctx context.Context, db *sql.DB) (*Keeper, error) {
	key := weak.Make(db)
	if k, ok := wrapped.Load(key); ok {
		return k.(*Keeper), nil
	}
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	var k *Keeper
	err = c.Raw(func(dc any) error {
		ours, err := facade(dc)
		if err != nil {
			return fmt.Errorf("lockdb: this *sql.DB was not opened by lockdb (driver %T, %w): open it with "+
				`sql.Open("lockdb", dsn), or wrap driver.OpenConnector(dsn)`, db.Driver(), err)
		}
		k = ours.keeper
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, loaded := wrapped.LoadOrStore(key, k); !loaded {
		runtime.AddCleanup(db, func(key weak.Pointer[sql.DB]) { wrapped.Delete(key) }, key)
	}
	return k, nil
}
