package conn

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockdb/lockdb/internal/dialect"
	"github.com/lockdb/lockdb/internal/lease"
)

// Fence is the check of Commit, made in a transaction that was begun elsewhere. See
// package lockctx.
func Fence(ctx context.Context, tx *sql.Tx) error {
	inner, ok := ctx.Value(leaseOf{}).(*Lock)
	if !ok {
		return fault("", "Fence found no lease in ctx: pass the Context of a lock acquired with Lease, or one derived from it", ErrUnsupported)
	}
	k := inner.keeper
	f := &fence{keeper: k, ctx: ctx}
	f.around(inner)
	for _, l := range f.locks {
		if err := l.Err(); err != nil {
			return err
		}
		for _, le := range l.leases {
			if !slices.Contains(f.leases, le.Lease) {
				f.leases = append(f.leases, le.Lease)
			}
		}
	}
	slices.SortFunc(f.leases, func(a, b *lease.Lease) int { return strings.Compare(a.Row().Key, b.Row().Key) })
	m, err := k.leaseManager()
	if err != nil {
		return fault(inner.key, "", err)
	}
	table, err := m.Table(ctx)
	if err != nil {
		return err
	}
	for _, le := range f.leases {
		var one int
		err := tx.QueryRowContext(ctx, table.FenceQuery(m.Server(), le.Row())).Scan(&one)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			if moved, merr := le.Moved(ctx); merr == nil && !moved {
				return fault(inner.key, "the transaction sees the table of leases as it was before the lease was acquired, so that it cannot keep the row: "+
					"roll it back, and begin it when the lease is held", ErrUnsupported)
			}
			l := f.lose(le, dialect.ErrMoved)
			return fault(l.key, "the lease has moved on: roll the transaction back", ErrLost)
		case readOnlyTx(err):
			return fault(inner.key, "in a read-only transaction PostgreSQL keeps no row as it is, and has aborted this one: it commits nothing, so that it needs no Fence", ErrUnsupported, err)
		case err == nil:
		case table.Fault(err) == dialect.LeaseFaultRetry:
			return f.moved(err, false)
		default:
			return err
		}
	}
	return nil
}

// readOnlyTx tells of PostgreSQL's read_only_sql_transaction.
func readOnlyTx(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "25006"
}

// Prune deletes the rows of leases that have been idle for age. See package lockctx.
func (k *Keeper) Prune(ctx context.Context, age time.Duration) (int64, error) {
	m, err := k.joinLeases()
	if err != nil {
		return 0, err
	}
	defer k.leasing.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	return m.Prune(ctx, age)
}

// LeaseDDL is the statement that creates the table of leases.
func (k *Keeper) LeaseDDL() string { return k.dialect.Leases(k.opts.LeaseTable).DDL() }
