package lease

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
	"github.com/lockdb/lockdb/internal/monotime"
)

// beat renews the leases that have the same interval, together: one statement
// for a thousand of them in each interval.
type beat struct {
	m     *Manager
	every time.Duration

	// Guarded by the Manager's mu:
	leases map[*Lease]struct{}
	timer  *time.Timer
}

// batch is how many leases one statement renews.
const batch = 1000

// addToBeat has a lease renewed. Under mu.
func (m *Manager) addToBeat(l *Lease) {
	b := m.beats[l.req.Renew]
	if b == nil {
		b = &beat{m: m, every: l.req.Renew, leases: make(map[*Lease]struct{})}
		m.beats[b.every] = b
		b.timer = time.AfterFunc(max(l.due-monotime.Now(), 0), b.tick)
	}
	b.leases[l] = struct{}{}
}

// leaveBeat ends the renewals of a lease. The beat stays until its next tick: the
// next lease may come before. Under mu.
func (m *Manager) leaveBeat(l *Lease) {
	if b := m.beats[l.req.Renew]; b != nil {
		delete(b.leases, l)
	}
}

// tick renews what is due, or nearly: so leases that were acquired one after the
// other come to be renewed together.
func (b *beat) tick() {
	if !b.m.join() {
		return
	}
	defer b.m.running.Done()
	together, alone := b.take()
	for some := range slices.Chunk(together, batch) {
		b.renew(some)
	}
	for _, l := range alone {
		b.renew([]*Lease{l})
	}
	b.rest()
}

// take takes the leases that this tick renews, by key.
func (b *beat) take() (together, alone []*Lease) {
	m := b.m
	m.mu.Lock()
	defer m.mu.Unlock()
	now := monotime.Now()
	for l := range b.leases {
		switch {
		case l.due > now+b.every*3/4:
		case l.committing > 0:
			l.due = now + b.every/8
		case l.alone:
			alone = append(alone, l)
		default:
			together = append(together, l)
		}
	}
	byKey := func(a, b *Lease) int { return cmp.Compare(a.req.Key, b.req.Key) }
	slices.SortFunc(together, byKey)
	slices.SortFunc(alone, byKey)
	return together, alone
}

// rest sets the timer for the next tick.
func (b *beat) rest() {
	m := b.m
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closing:
		return
	case len(b.leases) == 0:
		delete(m.beats, b.every)
		return
	}
	now := monotime.Now()
	next := now + b.every
	for l := range b.leases {
		next = min(next, l.due)
	}
	b.timer.Reset(max(next-now, b.every/16, time.Millisecond))
}

// renew renews some leases in one statement, and those that are not to be
// renewed together with others one by one.
func (b *beat) renew(leases []*Lease) {
	m := b.m
	over := make(chan struct{})
	defer close(over)
	m.mu.Lock()
	leases = slices.DeleteFunc(slices.Clone(leases), func(l *Lease) bool {
		if l.state != held || l.committing > 0 {
			return true
		}
		l.renewing = over
		return false
	})
	m.mu.Unlock()
	if len(leases) == 0 {
		return
	}
	rows := make([]dialect.Lease, len(leases))
	for i, l := range leases {
		rows[i] = l.Row()
	}
	start := monotime.Now()
	moved, err := m.renewRows(rows, max(b.every*2/3, 50*time.Millisecond))
	if err != nil && m.fault(err) == dialect.LeaseFaultRetry && m.ctx.Err() == nil && len(leases) > 1 {
		// A transaction has one of the rows: find out which, since the others are
		// not to wait for it.
		half := len(leases) / 2
		b.renew(leases[:half])
		b.renew(leases[half:])
		return
	}
	b.note(leases, moved, start, err)
	if err != nil && m.ctx.Err() == nil {
		m.cfg.Log(slog.LevelDebug, "lockdb: leases were not renewed, and are tried again",
			slog.Int("leases", len(leases)), slog.String("first", leases[0].req.Key), slog.Any("error", err))
	}
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
			l.alone = m.fault(err) == dialect.LeaseFaultRetry
		case slices.Contains(moved, i):
			_ = l.lose(errMoved)
		default:
			l.deadline, l.due = start+lifetime(l.req.TTL), start+b.every
			l.alone, l.trouble = false, nil
		}
	}
}

// renewRows renews rows and tells which of them have moved on.
func (m *Manager) renewRows(rows []dialect.Lease, limit time.Duration) (moved []int, err error) {
	ctx, cancel := context.WithTimeout(m.ctx, limit) // for the connection
	defer cancel()
	t, err := m.Table(ctx)
	if err != nil {
		return nil, err
	}
	err = m.anywhere(ctx, limit, false, func(ctx context.Context, q dialect.Querier, s dialect.LeaseServer) error {
		n, err := t.Renew(ctx, q, s, rows)
		if err != nil || n == len(rows) {
			return err
		}
		moved, err = t.Moved(ctx, q, s, rows)
		return err
	})
	return moved, err
}
