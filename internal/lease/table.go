package lease

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// table is the table of leases, once it was found.
type table struct {
	found atomic.Pointer[dialect.Leases]
	turn  chan struct{} // holds a token while somebody looks for it
}

// Table speaks of the table by its full name. It looks for the table first, and
// creates it if there is none.
func (m *Manager) Table(ctx context.Context) (dialect.Leases, error) {
	if t := m.table.found.Load(); t != nil {
		return *t, nil
	}
	select {
	case m.table.turn <- struct{}{}:
		defer func() { <-m.table.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if t := m.table.found.Load(); t != nil {
		return *t, nil
	}
	named := m.cfg.Dialect.Leases(m.cfg.Table)
	var t dialect.Leases
	err := m.loosely(ctx, patience, func(ctx context.Context, q dialect.Querier, s dialect.LeaseServer) (err error) {
		t, err = named.Find(ctx, q)
		if errors.Is(err, dialect.ErrNoLeaseTable) {
			if err = named.Create(ctx, q, s); err != nil {
				return fmt.Errorf("the table of leases is not there, or not to be seen, and cannot be created (%w): have somebody run: %s", err, named.DDL())
			}
			t, err = named.Find(ctx, q)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	m.table.found.Store(&t)
	return t, nil
}

// forgetTable has the table looked for again: it was there, and is not any more.
func (m *Manager) forgetTable() { m.table.found.Store(nil) }

// DDL is the statement that creates the table.
func (m *Manager) DDL() string { return m.cfg.Dialect.Leases(m.cfg.Table).DDL() }

// pruneStep is how many rows one statement deletes: each holds their locks, and
// those of the gaps between, until it ends.
const pruneStep = 1000

// Prune deletes the rows of leases that have been idle for age, and tells how many.
func (m *Manager) Prune(ctx context.Context, age time.Duration) (total int64, err error) {
	t, err := m.Table(ctx)
	for err == nil {
		var n int64
		err = m.loosely(ctx, patience, func(ctx context.Context, q dialect.Querier, s dialect.LeaseServer) (err error) {
			n, err = t.Prune(ctx, q, s, age, pruneStep)
			return err
		})
		total += n
		if n < pruneStep {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
	}
	return total, err
}
