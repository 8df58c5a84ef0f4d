package conn

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"sync"
	"weak"
)

// wrapped remembers the keepers of *sql.DBs that other drivers wrap, for as
// long as the DBs live.
var wrapped sync.Map // weak.Pointer[sql.DB] → *Keeper

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
