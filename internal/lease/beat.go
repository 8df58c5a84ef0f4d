package lease

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	at     time.Duration // when the timer fires, by monotime; 0 during a tick
}

// batch is how many leases one statement renews.
const batch = 1000

// addToBeat has a lease renewed. Under mu.
func (m *Manager) addToBeat(l *Lease) {
	b := m.beats[l.req.Renew]
	switch {
	case b == nil:
		b = &beat{m: m, every: l.req.Renew, leases: make(map[*Lease]struct{}), at: l.due}
		m.beats[b.every] = b
		b.timer = time.AfterFunc(max(l.due-monotime.Now(), 0), b.tick)
	case l.due < b.at && b.timer.Stop(): // its claim took long
		b.at = l.due
		b.timer.Reset(max(l.due-monotime.Now(), 0))
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
		alone = append(alone, b.renew(some)...)
	}
	b.renewAlone(alone)
	b.rest()
}

// take takes the leases that this tick renews: together by key.
func (b *beat) take() (together, alone []*Lease) {
	m := b.m
	m.mu.Lock()
	defer m.mu.Unlock()
	b.at = 0
	now := monotime.Now()
	for l := range b.leases {
		switch {
		case l.due > now+b.every*3/4:
		case l.committing > 0 && l.deadline-now > Lifetime(l.req.TTL)/2:
			l.due = now + b.every/8 // perhaps none is under way then
		case l.committing > 0, l.alone:
			alone = append(alone, l)
		default:
			together = append(together, l)
		}
	}
	slices.SortFunc(together, func(a, b *Lease) int { return cmp.Compare(a.req.Key, b.req.Key) })
	return together, alone
}

// renewAlone renews leases one by one, each of which may have to wait for its row,
// a few at a time and the most urgent first. Those that there is no time for are the
// next tick's: the others of the beat are not to wait for them.
func (b *beat) renewAlone(alone []*Lease) {
	if len(alone) == 0 {
		return
	}
	b.m.mu.Lock()
	slices.SortFunc(alone, func(a, b *Lease) int { return cmp.Compare(a.deadline, b.deadline) })
	b.m.mu.Unlock()
	over := monotime.Now() + b.every/2
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(len(alone), renewals-1) {
		wg.Go(func() {
			for monotime.Now() < over {
				i := int(next.Add(1)) - 1
				if i >= len(alone) {
					return
				}
				b.renew(alone[i : i+1])
			}
		})
	}
	wg.Wait()
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
	pause := max(next-now, b.every/16, time.Millisecond)
	b.at = now + pause
	b.timer.Reset(pause)
}
