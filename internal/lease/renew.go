package lease

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
	"github.com/lockdb/lockdb/internal/monotime"
)

// rowWait is within what time the server ends a statement that waits for a row:
// a second, which InnoDB looks at once a second. A renewal that is broken off before
// keeps the rows that it has got so long.
const rowWait = 2100 * time.Millisecond

// renew renews some leases in one statement, and returns those of which a
// transaction keeps the row, perhaps: the others do not wait for it.
func (b *beat) renew(leases []*Lease) (kept []*Lease) {
	m := b.m
	over := make(chan struct{})
	defer close(over)
	m.mu.Lock()
	leases = slices.DeleteFunc(slices.Clone(leases), func(l *Lease) bool {
		if l.state != held || l.committing > 0 && len(leases) > 1 {
			return true
		}
		l.renewing = over
		return false
	})
	m.mu.Unlock()
	if len(leases) == 0 {
		return nil
	}
	asked := false
	if len(leases) > 1 && b.limit() < rowWait {
		if free, locked, err := b.part(leases); err == nil {
			leases, kept, asked = free, locked, true
		}
		if len(leases) == 0 {
			return kept
		}
	}
	start := monotime.Now()
	moved, err := m.renewRows(rowsOf(leases), b.limit())
	if err == nil || asked || len(leases) == 1 || m.fault(err) != dialect.LeaseFaultRetry || m.ctx.Err() != nil {
		b.note(leases, moved, start, err)
		return kept
	}
	free, kept, ferr := b.part(leases)
	switch {
	case ferr != nil: // the server cannot say which rows are kept
		half := len(leases) / 2
		return append(b.renew(leases[:half]), b.renew(leases[half:])...)
	case len(free) > 0:
		start = monotime.Now()
		moved, err = m.renewRows(rowsOf(free), b.limit())
		b.note(free, moved, start, err)
	}
	return kept
}

// limit is how long a renewal may take.
func (b *beat) limit() time.Duration { return max(b.every*2/3, 50*time.Millisecond) }

var errKept = errors.New("a transaction keeps the row of the lease")

// part parts the leases whose rows can be had at once from the others, which are
// renewed alone until that succeeds, unless it is all of them.
func (b *beat) part(leases []*Lease) (free, kept []*Lease, err error) {
	m := b.m
	rows := rowsOf(leases)
	var unlocked []int
	err = m.renewal(b.limit(), func(ctx context.Context, t dialect.Leases, q dialect.Querier, s dialect.LeaseServer) (err error) {
		unlocked, err = t.Unlocked(ctx, q, s, rows)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(unlocked)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, l := range leases {
		if _, is := slices.BinarySearch(unlocked, i); is {
			free = append(free, l)
			continue
		}
		kept = append(kept, l)
		l.renewing, l.trouble = nil, errKept
	}
	if len(free) > 0 {
		for _, l := range kept {
			l.alone = true
		}
	}
	return free, kept, nil
}

func rowsOf(leases []*Lease) []dialect.Lease {
	rows := make([]dialect.Lease, len(leases))
	for i, l := range leases {
		rows[i] = l.Row()
	}
	return rows
}

// note notes what came of a renewal that began at start.
func (b *beat) note(leases []*Lease, moved []int, start time.Duration, err error) {
	m := b.m
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, l := range leases {
		l.renewing = nil
		switch {
		case l.state != held:
		case err != nil:
			l.trouble = err
			l.due = monotime.Now() + b.every/8
			l.alone = l.alone || len(leases) == 1 && m.fault(err) == dialect.LeaseFaultRetry
		case slices.Contains(moved, i):
			_ = l.lose(errMoved)
		default:
			l.deadline, l.due = start+Lifetime(l.req.TTL), start+b.every
			l.alone, l.trouble = false, nil
		}
	}
}

// renewRows renews rows and tells which of them have moved on.
func (m *Manager) renewRows(rows []dialect.Lease, limit time.Duration) (moved []int, err error) {
	err = m.renewal(limit, func(ctx context.Context, t dialect.Leases, q dialect.Querier, s dialect.LeaseServer) error {
		n, err := t.Renew(ctx, q, s, rows)
		if err != nil || n == len(rows) {
			return err
		}
		moved, err = t.Moved(ctx, q, s, rows)
		return err
	})
	if err != nil && m.ctx.Err() == nil {
		m.cfg.Log(slog.LevelDebug, "lockdb: leases were not renewed, and are tried again",
			slog.Int("leases", len(rows)), slog.String("first", rows[0].Key), slog.Any("error", err))
	}
	return moved, err
}

// renewal runs a statement of a renewal's.
func (m *Manager) renewal(limit time.Duration, f func(context.Context, dialect.Leases, dialect.Querier, dialect.LeaseServer) error) error {
	ctx, cancel := context.WithTimeout(m.ctx, limit) // for the connection
	defer cancel()
	t, err := m.Table(ctx)
	if err != nil {
		return err
	}
	return m.anywhere(ctx, limit, false, func(ctx context.Context, q dialect.Querier, s dialect.LeaseServer) error {
		return f(ctx, t, q, s)
	})
}
